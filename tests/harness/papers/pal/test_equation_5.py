"""Equation 5 chooses a division of the cores from measured curves, and says what it loses against its neighbours."""

from collections.abc import Sequence

import pytest

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import silent
from placerl.harness.papers.pal import equation_5, figure_10_runs
from placerl.harness.papers.pal.equation_5 import EXPERIMENT, Split
from placerl.harness.papers.pal.figure_10_runs import COLLECTION, CONSUMPTION, TRAINING, Cores
from placerl.harness.store.rows import ClaimRow

ITEM = workloads.override(workloads.load("cartpole-dqn"), "training.actors", 16, "test")
INTERVAL = ITEM.training.update_interval


def row(kind: str, actors: int, learners: int, rates: Sequence[float]) -> ClaimRow:
    steps = "environment" if kind == COLLECTION else "gradient"
    return EXPERIMENT.summary(
        rates,
        Cores(actors, learners, INTERVAL),
        workload=ITEM.name,
        primitive="training",
        backend=kind,
        device="native-native-cpu",
        batch_size=32,
        quantity=f"{steps}_steps_per_s",
    )


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch):
    def have(count: int) -> None:
        monkeypatch.setattr(equation_5, "usable_cores", lambda: list(range(count)))

    return have


@pytest.mark.parametrize(
    ("count", "split", "expected"),
    [
        (2, Split(1, 1), [Split(0, 1)]),
        (4, Split(1, 3), [Split(0, 1), Split(2, 2)]),  # 32 is no multiple of 3
        (4, Split(2, 2), [Split(1, 2), Split(3, 1)]),
        (6, Split(2, 2), [Split(1, 2), Split(3, 2), Split(3, 1)]),
    ],
)
def test_neighbours_have_one_core_more_or_less_for_the_actors(
    cores, count: int, split: Split, expected: list[Split]
) -> None:
    cores(count)
    assert equation_5.neighbours(split, ITEM) == expected


def test_the_choice_is_that_of_the_curves_and_says_what_it_lost(cores) -> None:
    cores(4)
    rows = [
        *(row(COLLECTION, n, 0, [1000.0 * INTERVAL * n] * 5) for n in (1, 2, 3)),
        *(row(CONSUMPTION, 0, n, [rate] * 5) for n, rate in ((1, 1200.0), (2, 1900.0))),
        row(TRAINING, 2, 2, [1600.0, 800.0, 1600.0, 1600.0, 1600.0]),
        row(TRAINING, 1, 2, [800.0, 400.0, 800.0, 800.0, 800.0]),
        row(TRAINING, 3, 1, [2000.0, 1000.0, 2000.0, 2000.0, 2000.0]),
    ]
    assert equation_5.chosen_split(rows, ITEM) == (2, 2, 0)
    first, slower, faster, lost = equation_5.lines(rows, ITEM)
    assert first == (
        "Equation 5 divides 4 cores: 2 for actors and 2 for learners; predicted 1,900 gradient steps/s, reached 1,600 "
        "(+18.8%)"
    )
    assert slower.endswith("800 gradient steps/s; the choice is 2 [2, 2] times as fast")
    assert faster.endswith("2,000 gradient steps/s; the choice is 0.8 [0.8, 0.8] times as fast")
    assert lost == "lost against its neighbours: 20.0%"


def test_what_has_one_core_or_no_threads_of_cpp_is_refused(cores) -> None:
    with pytest.raises(UserError, match="auto: found cartpole-ppo; allowed: a workload that trains with C"):
        equation_5.check(workloads.load("cartpole-ppo"))
    cores(1)
    with pytest.raises(UserError, match="auto: found 1 core; allowed: at least 2 cores"):
        equation_5.check(ITEM)


@pytest.mark.parametrize("ahead", [0, 3])
def test_curves_division_and_neighbours_are_measured(
    cores, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    """With the workload's batches ahead, if it has any."""
    cores(2)
    made: list[int] = []
    threads = figure_10_runs.ThreadedTraining
    monkeypatch.setattr(
        figure_10_runs,
        "ThreadedTraining",
        lambda resolved, **options: (made.append(resolved.shape.ahead), threads(resolved, **options))[1],
    )
    item = workloads.override(ITEM, "training.presampled_batches", ahead, "test")
    rows = equation_5.measure(item, silent, stretches=1, stretch_s=0.02)
    assert made == [ahead] * 4
    stated = [(one.backend, *equation_5._split(one)) for one in rows]
    assert stated == [(COLLECTION, 1, 0, 0), (CONSUMPTION, 0, 1, 0), (TRAINING, 1, 1, 0), (TRAINING, 0, 1, 0)]
    assert all(one.value for one in rows)


MANAGED = workloads.override(ITEM, "training.presampled_batches", 3, "test")


@pytest.mark.parametrize(
    ("count", "split", "expected"),
    [
        (3, Split(1, 1, 1), []),
        (6, Split(1, 2, 2), [Split(2, 2, 2), Split(3, 1, 1)]),
        (8, Split(4, 1, 1), [Split(3, 1, 1), Split(2, 2, 2), Split(5, 1, 1)]),
    ],
)
def test_a_learner_with_a_manager_gives_and_takes_two_cores(
    cores, count: int, split: Split, expected: list[Split]
) -> None:
    cores(count)
    assert equation_5.neighbours(split, MANAGED) == expected


def test_a_manager_for_each_learner_is_measured_and_chosen(cores) -> None:
    cores(3)
    equation_5.check(MANAGED, managed=True)
    rows = equation_5.measure(MANAGED, silent, stretches=1, stretch_s=0.02, managed=True)
    stated = [(one.backend, *equation_5._split(one)) for one in rows]
    assert stated == [(COLLECTION, 1, 0, 0), (CONSUMPTION, 0, 1, 1), (TRAINING, 1, 1, 1)]
    assert equation_5.chosen_split(rows, MANAGED) == (1, 1, 1)
    first, lost = equation_5.lines(rows, MANAGED)
    assert first.startswith(
        "Equation 5 divides 3 cores: 1 for actors, 1 for learners, 1 for their managers; "
    )
    assert lost == "it has no neighbours"


def test_managers_need_a_core_of_their_own_and_batches_ahead(cores) -> None:
    cores(2)
    with pytest.raises(UserError, match=r"found 2 cores.*at least 3 cores .* one of their replay managers"):
        equation_5.check(MANAGED, managed=True)
    cores(3)
    with pytest.raises(UserError, match="presampled"):
        equation_5.check(ITEM, managed=True)
