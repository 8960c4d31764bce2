"""The least that has whole vector steps and whole gradient steps, or several of it."""

import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.loop.iteration import Iteration, check_insertion, check_overlap, collected_rows
from tests.harness.runtime.short_workloads import short


@pytest.mark.parametrize(
    ("actors", "interval", "overlap", "vector_steps", "gradient_steps"),
    [
        (1, 1, 0, 1, 1),
        (1, 4, 0, 4, 1),
        (3, 1, 0, 1, 3),
        (4, 6, 0, 3, 2),
        (4, 6, 2, 3, 2),
        (4, 6, 3, 6, 4),
        (4, 6, 4, 6, 4),
        (4, 6, 5, 9, 6),
        (1, 1, 7, 7, 7),
        (3, 1, 7, 3, 9),
    ],
)
def test_an_iteration_is_the_smallest_with_the_overlap(
    actors, interval, overlap, vector_steps, gradient_steps
):
    settings = short("cartpole-dqn", actors=actors, update_interval=interval).training
    assert Iteration.of(settings, overlap) == Iteration(vector_steps, gradient_steps)
    assert vector_steps * actors == gradient_steps * interval


@pytest.mark.parametrize(
    ("actors", "interval", "most"),
    [
        (1, 1, 500),  # a replay of 500 rows
        (1, 4, 125),
        (3, 1, 498),  # 166 rounds of three rows and three gradient steps
        (4, 6, 82),  # 41 rounds of 12 rows and two gradient steps
    ],
)
def test_an_overlap_collects_at_most_what_the_replay_holds(actors, interval, most):
    task = short("cartpole-dqn", actors=actors, update_interval=interval)
    check_overlap(task, most)
    assert collected_rows(task, most, reallocate=False) <= 500
    with pytest.raises(UserError, match=f"overlap: found {most + 1}; allowed: 0 to {most}: .* 500, holds"):
        check_overlap(task, most + 1)


@pytest.mark.parametrize(
    ("actors", "interval", "fits"), [(1, 500, True), (1, 501, False), (20, 25, True), (3, 167, False)]
)
def test_an_iteration_that_collects_more_than_the_replay_holds_is_refused(actors, interval, fits):
    task = short("cartpole-dqn", actors=actors, update_interval=interval)
    if fits:
        check_insertion(task)
        return
    with pytest.raises(
        UserError, match=r"replay\.capacity: found 500; allowed: at least 501: the transitions between"
    ):
        check_insertion(task)


def test_whatever_it_collects_one_iteration_is_no_overlap_too_many():
    task = short("cartpole-dqn", actors=2, update_interval=2000)
    check_overlap(task, 1)
    with pytest.raises(UserError, match="overlap: found 2; allowed: 0 to 1"):
        check_overlap(task, 2)


def test_actors_have_room_for_their_iteration_and_for_that_of_all_where_one_may_act_alone():
    task = short("cartpole-dqn", actors=3, update_interval=2)
    assert collected_rows(task, 0, reallocate=False) == 2 * 3
    assert collected_rows(task, 4, reallocate=False) == 4 * 3
    assert collected_rows(task, 4, reallocate=True) == 4 * 3 * 3
