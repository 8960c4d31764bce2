"""Actors and learners against cores: the rows of a short measurement."""

import pytest

from harness import workloads
from harness.core.progress import silent
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.papers.pal import core_scaling
from harness.papers.pal.core_scaling import COLLECTION, CONSUMPTION, TRAINING, Count, Subject, curve, splits
from harness.plan.tiers import TIERS


def row(kind: str, cores: int, rate: float) -> Measurement:
    return Measurement(
        suite="claim",
        primitive="training",
        backend=kind,
        quantity="rate",
        unit="1/s",
        provenance=Provenance.MEASURED,
        value=rate,
        details={"actor_cores": cores, "learner_cores": 0},
    )


def test_a_curve_is_straight_between_its_points():
    made = curve([row(COLLECTION, 4, 40.0), row(COLLECTION, 1, 10.0), row(CONSUMPTION, 2, 99.0)], COLLECTION)
    assert [made(cores) for cores in (1, 2, 3, 4)] == [10, 20, 30, 40]


def test_every_split_of_all_cores_is_run_and_the_chosen_one_of_fewer():
    rows = [
        row(kind, cores, rate * cores)
        for kind, rate in ((COLLECTION, 30.0), (CONSUMPTION, 10.0))
        for cores in (1, 2, 4)
    ]
    assert splits(rows, workloads.load("ant-ddpg"), [1, 2, 4]) == [(1, 1), (1, 3), (2, 2), (3, 1)]
    assert splits(rows, workloads.load("ant-ddpg"), [1]) == []


def test_subjects_take_turns_and_their_rows_say_how_noisy_they_are():
    """The first stretch warms up; of the third subject every stretch takes another time."""
    lengths_s: list[float] = []

    def subject(kind, actors, learners, rates):
        def advance(seconds):
            lengths_s.append(seconds)
            return Count(10, 10 / next(rates))

        return Subject(kind, actors, learners, advance)

    subjects = [
        subject(COLLECTION, 1, 0, iter([99.0, *[50.0] * 5])),
        subject(CONSUMPTION, 0, 1, iter([99.0, *[20.0] * 5])),
        subject(TRAINING, 0, 1, iter([99.0, 1.0, 2.0, 3.0, 4.0, 5.0])),
    ]
    told = []
    rows = core_scaling._timed(
        workloads.load("ant-ddpg"), subjects, 5, 0.25, lambda *one: told.append(one)
    )  # fmt: skip
    assert lengths_s == [0.25] * 18
    assert len(told) == 18
    assert [(row.backend, row.value, row.status) for row in rows] == [
        (COLLECTION, 50.0, "ok"),
        (CONSUMPTION, 20.0, "ok"),
        (TRAINING, 3.0, "too_noisy"),
    ]
    assert [row.quantity for row in rows] == ["environment_steps_per_s", *["gradient_steps_per_s"] * 2]
    assert [(row.details["actor_cores"], row.details["learner_cores"]) for row in rows] == [
        (1, 0),
        (0, 1),
        (0, 1),
    ]
    assert rows[2].samples == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert [row.details["experiment"] for row in rows] == [core_scaling.EXPERIMENT] * 3


def test_the_quick_tier_leaves_it_out():
    assert not core_scaling.cells(TIERS["quick"])
    assert [cell.key for cell in core_scaling.cells(TIERS["standard"])] == [
        "claim/PAL-F10/lunarlander-dqn",
        "claim/PAL-F10/ant-ddpg",
    ]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_curves_and_runs_have_their_cores(monkeypatch):
    monkeypatch.setattr(core_scaling, "CORES", (1, 2))
    rows = core_scaling.measure("lunarlander-dqn", silent, stretches=1, stretch_s=0.05)
    found = [(made.backend, made.details["actor_cores"], made.details["learner_cores"]) for made in rows]
    assert found[0] == (COLLECTION, 1, 0)
    assert (CONSUMPTION, 0, 1) in found
    assert (TRAINING, 0, 1) in found
    assert all(made.value and made.provenance is Provenance.MEASURED for made in rows)
