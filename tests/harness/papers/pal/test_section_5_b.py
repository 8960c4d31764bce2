"""Learner threads: what is measured, and when two are faster than one."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from placerl.harness.core.progress import silent
from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome
from placerl.harness.papers.pal import section_5_b
from placerl.harness.papers.pal.section_5_b import EXPERIMENT, splits
from placerl.harness.plan.tiers import TIERS
from tests.harness.old_form import details_of
from tests.harness.papers.rows import profiled, verdict


def rows_of(name: str, gain: float, cores: int = 3, itself: float = 1.0) -> list[Row]:
    """Rows of one workload whose second learner is so many times as fast as the first alone."""
    made = []
    for split in splits(4):
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
        ((1.5, 0.5), 1.0, Outcome.NO_VERDICT),  # PAL's learners have whole batches
        ((1.5, 1.0), 1.0, Outcome.NO_VERDICT),
        ((1.5, 1.4), 2.0, Outcome.NO_VERDICT),
    ],
)
def test_every_workload_counts_and_a_slower_one_refutes_nothing(
    gains: tuple[float, float], itself: float, outcome: Outcome, tmp_path: Path
) -> None:
    rows = [
        *rows_of("hopper-ddpg", gains[0], itself=itself),
        *rows_of("cartpole-dqn", gains[1], itself=itself),
    ]
    found = verdict("PAL-V-B", tmp_path, *rows).finding
    assert found.outcome is outcome
    assert [number.value for number in found.ours] == pytest.approx(list(gains), rel=0.01)


@pytest.mark.parametrize("cores", [1, 2])
def test_threads_that_share_a_core_judge_nothing(cores: int, tmp_path: Path) -> None:
    """On 2 cores an actor and two learners are 3 threads, an actor and one learner 2."""
    for gain in (0.5, 1.5):
        found = verdict("PAL-V-B", tmp_path / str(gain), *rows_of("hopper-ddpg", gain, cores)).finding
        assert found.outcome is Outcome.NOT_RUN
        assert found.needs.startswith("3 cores or more, one per thread")


def test_without_its_rows_it_is_not_run(tmp_path: Path) -> None:
    rows = rows_of("hopper-ddpg", 1.5)[:2]
    assert verdict("PAL-V-B", tmp_path, *rows).finding.outcome is Outcome.NOT_RUN


def test_its_text_names_what_was_measured_alone(tmp_path: Path) -> None:
    found = verdict("PAL-V-B", tmp_path, *rows_of("hopper-ddpg", 0.5)).finding
    assert found.explanation == (
        "Two learner threads, each with half of a batch, are faster than one in 0 of 1 workloads, slower in 1. Each "
        "had one actor thread, and every thread a core of its own. PAL's learners sample a batch each, with which the "
        "threads synchronise half as often a sample: halves can show the statement, and not refute it."
    )


def test_no_split_has_more_threads_than_cores() -> None:
    sizes = {cores: {(s.actors, s.learners) for s in splits(cores)} for cores in (1, 2, 3, 4, 8)}
    assert sizes == {
        1: set(),
        2: {(1, 1)},
        3: {(1, 1), (1, 2), (2, 1)},
        4: (every := {(1, 1), (1, 2), (2, 1), (2, 2)}),
        8: every,
    }
    assert all(sum(s.null for s in splits(cores)) * 2 == len(splits(cores)) for cores in sizes)


def of_cores(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    """What is measured believes that there are so many cores; threads stay where they are."""
    monkeypatch.setattr(section_5_b, "usable_cores", lambda: list(range(cores)))
    monkeypatch.setattr(section_5_b, "pinned", lambda _: nullcontext())


@pytest.mark.parametrize("cores", [3, 4])
def test_every_split_is_a_training_that_is_measured(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    of_cores(monkeypatch, cores)
    rows = section_5_b.measure("cartpole-dqn", silent, rounds=5, steps=5)
    found = [
        (details_of(row)["actors"], details_of(row)["learners"], details_of(row)["null"]) for row in rows
    ]
    assert found == [(split.actors, split.learners, split.null) for split in splits(cores)]
    assert all(row.value and row.value > 0 for row in rows)
    assert {details_of(row)["cores"] for row in rows} == {cores}


def test_on_two_cores_nothing_is_timed_and_the_reason_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    of_cores(monkeypatch, 2)
    (row,) = section_5_b.measure("cartpole-dqn", silent)
    assert (row.status, row.value) == ("not_run", None)
    assert row.reason == "not run: needs 3 cores, one per thread; this process may use 2"


def test_an_environment_that_is_not_native_is_not_run_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    of_cores(monkeypatch, 3)
    (row,) = section_5_b.measure("pong-dqn", silent)
    assert row.status == "not_run"
    assert "needs a native environment" in row.reason
    assert "AtariFrames" in row.reason


def test_the_quick_tier_has_no_such_cells() -> None:
    assert [
        bool(section_5_b.TwoLearnersAreFaster().cells(TIERS[name])) for name in ("quick", "standard")
    ] == [False, True]
