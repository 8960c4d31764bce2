"""PAL Fig. 8: throughput beside RLlib's is given, and no verdict."""

from pathlib import Path

from harness.papers.pal import figure_8
from tests.harness.papers.rows import compared, frame_of


def test_throughput_beside_rllib_is_told(tmp_path: Path) -> None:
    found = figure_8.convergence(frame_of(tmp_path, compared(50.0, "faster", baseline="rllib")))
    assert [number.value for number in found.ours] == [50.0]
