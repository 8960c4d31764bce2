"""PAL Fig. 10: the rows of a short measurement."""

import os
from contextlib import nullcontext

import pytest

from placerl.harness import workloads
from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers.pal import figure_10_runs
from placerl.harness.papers.pal.figure_10_runs import (
    COLLECTION,
    CONSUMPTION,
    TRAINING,
    Count,
    Subject,
    curve,
    splits,
)
from placerl.harness.plan.tiers import TIERS
from placerl.primitives.environments import unavailable_reason
from tests.harness.old_form import details_of, row_of


def curve_row(kind: str, cores: int, rate: float) -> Row:
    return row_of(
        suite="claim",
        primitive="training",
        backend=kind,
        quantity="rate",
        unit="1/s",
        provenance=Provenance.MEASURED,
        value=rate,
        details={"actor_cores": cores, "learner_cores": 0},
    )


def test_a_core_that_no_thread_can_use_adds_nothing_to_a_curve():
    made = curve(
        [curve_row(COLLECTION, 4, 40.0), curve_row(COLLECTION, 1, 10.0), curve_row(CONSUMPTION, 2, 99.0)],
        COLLECTION,
    )
    assert [made(cores) for cores in (1, 2, 3, 4, 5)] == [10, 10, 10, 40, 40]


def test_every_split_of_all_cores_is_run_and_the_chosen_one_of_fewer():
    rows = [
        curve_row(kind, cores, rate * cores)
        for kind, rate in ((COLLECTION, 30.0), (CONSUMPTION, 10.0))
        for cores in (1, 2, 3, 4)
    ]
    item = workloads.load("ant-ddpg")
    item = workloads.override(workloads.with_batch_size(item, 12, "test"), "training.actors", 6, "test")
    assert splits(rows, item, [1, 2, 3, 4]) == [(1, 1), (1, 2), (1, 3), (2, 2), (3, 1)]
    assert splits(rows, item, [1]) == []


@pytest.mark.parametrize("name", figure_10_runs.WORKLOADS)
@pytest.mark.parametrize(
    ("usable", "cores", "several"),
    [
        (4, [1, 2, 3, 4], {(1, 3), (2, 2), (3, 1)}),
        (6, [1, 2, 3, 4, 6], {(2, 4), (3, 3), (4, 2)}),
        (8, [1, 2, 3, 4, 6, 8], {(2, 6), (4, 4), (6, 2)}),
        (16, [1, 2, 3, 4, 6, 8], {(2, 6), (4, 4), (6, 2)}),
    ],
)
def test_machines_have_several_splits_of_their_cores_and_each_curve_its_points(
    name: str, usable: int, cores: list[int], several: set[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[str, int, int]] = []

    def started(kind: str):
        def start(item, *split_and_stack):
            *split, _ = split_and_stack
            split = [split[0], 0] if kind == COLLECTION else [0, *split] if kind == CONSUMPTION else split
            ran.append((kind, *split))
            rate = 100.0 * sum(split)
            return Subject(kind, (*split, 0), lambda seconds: Count(round(1000 * rate), 1000.0))

        return start

    monkeypatch.setattr(figure_10_runs, "usable_cores", lambda: list(range(usable)))
    monkeypatch.setattr(figure_10_runs, "pinned", lambda _: nullcontext())
    for kind in (COLLECTION, CONSUMPTION, TRAINING):
        monkeypatch.setattr(figure_10_runs, kind, started(kind))
    figure_10_runs.measure(name, silent, stretches=1)
    assert [at for kind, at, _ in ran if kind == COLLECTION] == cores
    assert [at for kind, _, at in ran if kind == CONSUMPTION] == cores
    trained = {(actors, learners) for kind, actors, learners in ran if kind == TRAINING}
    assert several <= trained
    # Alike curves: half of the cores for each, of an odd number one idle.
    assert trained - several >= {(count // 2, count // 2) for count in cores[1:-1] if count != cores[-1]}


def test_subjects_take_turns_and_their_rows_say_how_noisy_they_are():
    """The first stretch warms up; of the third subject every stretch takes another time."""
    lengths_s: list[float] = []

    def subject(kind, actors, learners, rates):
        def advance(seconds):
            lengths_s.append(seconds)
            return Count(10, 10 / next(rates))

        return Subject(kind, (actors, learners, 0), advance)

    subjects = [
        subject(COLLECTION, 1, 0, iter([99.0, *[50.0] * 5])),
        subject(CONSUMPTION, 0, 1, iter([99.0, *[20.0] * 5])),
        subject(TRAINING, 0, 1, iter([99.0, 1.0, 2.0, 3.0, 4.0, 5.0])),
    ]
    told = []
    rows = figure_10_runs.timed(
        workloads.load("ant-ddpg"), subjects, 5, 0.25, lambda *one: told.append(one)
    )  # fmt: skip
    assert lengths_s == [0.25] * 18
    assert len(told) == 18
    assert [(row.who, row.value, row.status) for row in rows] == [
        (COLLECTION, 50.0, "ok"),
        (CONSUMPTION, 20.0, "ok"),
        (TRAINING, 3.0, "too_noisy"),
    ]
    assert [row.quantity for row in rows] == ["environment_steps_per_s", *["gradient_steps_per_s"] * 2]
    assert [(details_of(row)["actor_cores"], details_of(row)["learner_cores"]) for row in rows] == [
        (1, 0),
        (0, 1),
        (0, 1),
    ]
    assert rows[2].samples == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert [details_of(row)["experiment"] for row in rows] == [figure_10_runs.EXPERIMENT] * 3


def test_the_quick_tier_leaves_it_out():
    assert not figure_10_runs.cells(TIERS["quick"])
    assert [cell.key for cell in figure_10_runs.cells(TIERS["standard"])] == [
        "claim/PAL-F10/lunarlander-dqn",
        "claim/PAL-F10/ant-ddpg",
        "claim/PAL-F10/ant-sac",
    ]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_curves_and_runs_have_their_cores(monkeypatch):
    if reason := unavailable_reason("LunarLander-v3"):
        pytest.skip(reason)
    monkeypatch.setattr(figure_10_runs, "CORES", (1, 2))
    rows = figure_10_runs.measure("lunarlander-dqn", silent, stretches=1, stretch_s=0.05)
    found = [(made.who, details_of(made)["actor_cores"], details_of(made)["learner_cores"]) for made in rows]
    cores = min(2, len(os.sched_getaffinity(0)))
    expected = [(COLLECTION, count, 0) for count in range(1, cores + 1)]
    expected += [(CONSUMPTION, 0, count) for count in range(1, cores + 1)]
    expected += [(TRAINING, 0, 1), (TRAINING, 1, 1)][:cores]
    assert found == expected
    assert all(made.value and made.provenance is Provenance.MEASURED for made in rows)
    assert {made.where for made in rows} == {"native-native-cpu"}


def test_a_split_has_as_many_environments_and_transitions_for_each_thread() -> None:
    rows = [
        curve_row(kind, cores, rate * cores)
        for kind, rate in ((COLLECTION, 30.0), (CONSUMPTION, 10.0))
        for cores in (1, 2, 4, 8)
    ]
    item = workloads.override(workloads.load("ant-ddpg"), "training.actors", 8, "test")
    found = splits(rows, item, [1, 2, 4, 8])
    assert {actors for actors, _ in found} <= {1, 2, 4, 8}
    assert all(item.training.batch_size % learners == 0 for _, learners in found)
    assert (4, 4) in found
    assert (3, 5) not in found
