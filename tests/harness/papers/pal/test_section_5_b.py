"""Learner threads: what is measured, and when two are faster than one."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.progress import silent
from harness.core.row import Measurement
from harness.papers import Outcome
from harness.papers.pal import section_5_b
from harness.papers.pal.section_5_b import EXPERIMENT, SPLITS
from harness.plan.tiers import TIERS
from tests.harness.papers.rows import profiled
from tests.harness.papers.test_verdicts import verdict


def rows_of(name: str, gain: float, cores: int = 2, itself: float = 1.0) -> list[Measurement]:
    """Rows of one workload whose second learner is so many times as fast as the first alone."""
    made = []
    for split in SPLITS:
        time_s = 1e-3 / (gain if split.learners == 2 else 1.0) * (itself if split.null else 1.0)
        details = {"experiment": EXPERIMENT, "cores": cores}
        details |= {"actors": split.actors, "learners": split.learners, "null": split.null}
        samples = tuple(time_s * (1 + 1e-3 * (7 * i % 30) / 30) for i in range(45))
        row = profiled(section_5_b.PRIMITIVE, time_s, 32, suite="claim", samples=samples, details=details)
        made.append(replace(row, workload=name))
    return made


@pytest.mark.parametrize(
    ("gains", "itself", "outcome"),
    [
        ((1.5, 1.4), 1.0, Outcome.IN_KIND),
        ((1.5, 0.5), 1.0, Outcome.NOT_REPRODUCED),
        ((1.5, 1.0), 1.0, Outcome.NO_VERDICT),
        ((1.5, 1.4), 2.0, Outcome.NO_VERDICT),
    ],
)
def test_every_workload_counts_and_a_slower_one_refutes(
    gains: tuple[float, float], itself: float, outcome: Outcome, tmp_path: Path
) -> None:
    rows = [
        *rows_of("hopper-ddpg", gains[0], itself=itself),
        *rows_of("cartpole-dqn", gains[1], itself=itself),
    ]
    found = verdict("PAL-V-B", tmp_path, *rows).finding
    assert found.outcome is outcome
    assert [number.value for number in found.ours] == pytest.approx(list(gains), rel=0.01)


def test_one_core_or_no_rows_measure_nothing(tmp_path: Path) -> None:
    assert (
        verdict("PAL-V-B", tmp_path / "a", *rows_of("hopper-ddpg", 1.5, 1)).finding.outcome is Outcome.NOT_RUN
    )
    assert (
        verdict("PAL-V-B", tmp_path / "b", *rows_of("hopper-ddpg", 1.5)[:2]).finding.outcome
        is Outcome.NOT_RUN
    )


def test_every_split_is_a_training_that_is_measured() -> None:
    rows = section_5_b.measure("cartpole-dqn", silent, rounds=5, steps=5)
    found = [(row.details["actors"], row.details["learners"], row.details["null"]) for row in rows]
    assert found == [(a, n, null) for a in (1, 2) for n in (1, 2) for null in (False, True)]
    assert all(row.value and row.value > 0 for row in rows)


def test_an_environment_that_is_not_native_is_not_run_by_name() -> None:
    (row,) = section_5_b.measure("lunarlander-dqn", silent)
    assert row.status == "not_run"
    assert "needs a native environment" in row.reason
    assert "LunarLander" in row.reason


def test_the_quick_tier_has_no_such_cells() -> None:
    assert [bool(section_5_b.cells(TIERS[name])) for name in ("quick", "standard")] == [False, True]
