"""The table of the replay pipeline's cycles."""

import pytest

from harness.benchmarks import replay_cycles
from primitives.fpga import toolchain


@pytest.mark.slow
@pytest.mark.skipif(bool(toolchain.unavailable_reason()), reason=toolchain.unavailable_reason())
def test_differences_of_one_pipeline_are_fill_and_drain_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_cycles, "TREES", ((4, 16, 1),))
    monkeypatch.setattr(replay_cycles, "BATCH_SIZES", (5,))
    assert replay_cycles.cycle_rows() == [
        ["wide", "4", "2", "1", "sample", "5", "5", "12", "fill and drain +7"],
        ["wide", "4", "2", "1", "update", "5", "5", "12", "fill and drain +7"],
        ["narrow", "4", "2", "1", "sample", "5", "20", "30", "fill and drain +10"],
        ["narrow", "4", "2", "1", "update", "5", "5", "12", "fill and drain +7"],
    ]


def test_columns_are_aligned() -> None:
    assert replay_cycles.aligned([["a", "bb"], ["ccc", "d"]]).splitlines() == ["a    bb", "ccc  d "]
