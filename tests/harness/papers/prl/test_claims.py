"""PRL's throughput over other libraries, each outcome from made-up comparisons."""

from pathlib import Path

import pytest

from harness.papers import Outcome, claims
from tests.harness.papers.rows import compared
from tests.harness.papers.test_verdicts import verdict


@pytest.mark.parametrize(
    ("second", "outcome"),
    [
        ((2.0, "faster"), Outcome.IN_KIND),
        ((0.5, "slower"), Outcome.NOT_REPRODUCED),
        ((1.001, "no verdict"), Outcome.NO_VERDICT),
        ((2.0, "no verdict"), Outcome.NO_VERDICT),  # the interval leaves 1 out, the A/A null reaches as far
        ((0.5, "no verdict"), Outcome.NO_VERDICT),
    ],
)
def test_beside_the_libraries(second: tuple[float, str], outcome: Outcome, tmp_path: Path) -> None:
    rows = [compared(1.5, "faster"), compared(*second, "rllib")]
    found = verdict("PRL-T3", tmp_path, *rows, compared(9.0, "faster", "cpprb"))
    assert found.finding.outcome is outcome
    assert [number.value for number in found.finding.ours] == [1.5, second[0]]
    noisy = compared(2.0, "faster", status="too_noisy", reason="the interval is 40% of the median")
    assert verdict("PRL-T3", tmp_path, rows[0], noisy).finding.outcome is Outcome.NO_VERDICT


def test_only_portability_over_platforms_reads_every_machine() -> None:
    assert [claim.key for claim in claims("PRL") if claim.everywhere] == ["PRL-T3-platform-portability"]
