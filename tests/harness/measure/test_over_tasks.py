"""Figures over tasks: known values, intervals that draw seeds within each task, and ties."""

import numpy as np
import pytest

from placerl.harness.measure import over_tasks
from placerl.harness.measure.over_tasks import Interval


def bounds(found: Interval) -> tuple[float, float]:
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def test_the_interquartile_mean_is_over_the_runs_of_all_tasks() -> None:
    found = over_tasks.mean([[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 100]])
    assert found.value == np.mean([3, 4, 5, 6, 7, 8])
    low, high = bounds(found)
    assert 0 <= low < found.value < high


def test_seeds_are_drawn_within_their_task() -> None:
    """Tasks whose seeds agree leave nothing to chance, however far the tasks are apart."""
    found = over_tasks.mean([[0.0] * 5, [10.0] * 5])
    assert found == over_tasks.Interval(5.0, 5.0, 5.0)


def test_the_interval_holds_the_true_mean_as_often_as_it_says() -> None:
    """Of 100 intervals that hold with a chance of 95%, fewer than 88 do in 1 of 600 tries."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(100):
        low, high = bounds(over_tasks.mean(rng.normal([[0.0], [1.0], [2.0]], 0.5, (3, 10))))
        held += low <= 1 <= high
    assert held >= 88


def test_a_profile_falls_from_all_runs_to_none() -> None:
    found = over_tasks.profile([[0.2, 0.6] * 3, [0.4, 0.8] * 3], [0.0, 0.5, 0.9])
    assert [one.value for one in found] == [1.0, 0.5, 0.0]
    assert (found[0].low, found[2].high) == (1.0, 0.0)
    low, high = bounds(found[1])
    assert 0 <= low < 0.5 < high <= 1


def test_the_probability_of_improvement_is_the_mean_over_tasks() -> None:
    found = over_tasks.improvement([[2.0] * 5, [1.0] * 5], [[1.0] * 5, [1.0] * 5])
    assert found == over_tasks.Interval(0.75, 0.75, 0.75), "always higher in one, equal in the other"
    ours, theirs = [[1.0, 3.0, 5.0]], [[2.0, 4.0]]
    assert over_tasks.improvement(ours, theirs).value == pytest.approx(0.5)
    assert over_tasks.improvement(theirs, ours).value == pytest.approx(0.5)


def test_few_runs_of_a_task_do_not_say_how_much_seeds_differ() -> None:
    enough, too_few = [1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 3.0, 4.0]
    assert bounds(over_tasks.mean([enough, enough]))
    assert over_tasks.mean([enough, too_few]).low is None
    assert over_tasks.improvement([enough], [too_few]).high is None
    assert over_tasks.mean([[1.0], [3.0]]) == Interval(2.0, None, None)
    assert over_tasks.profile([[0.2, 0.6], [0.4]], [0.5]) == [Interval(1 / 3, None, None)]
    assert over_tasks.improvement([[2.0, 3.0]], [[1.0]]) == Interval(1.0, None, None)
