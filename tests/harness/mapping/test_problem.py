"""A problem has the sizes of its workload: of an item, a round and an iteration."""

import numpy as np
import pytest

from placerl.harness.mapping.problem import INDEX_BYTES, PRIORITY_BYTES, TD_ERROR_BYTES, WEIGHT_BYTES, Problem


@pytest.mark.parametrize(
    ("actors", "interval", "gradient_steps", "vector_steps"),
    [(1, 1, 1, 1), (2, 1, 2, 1), (1, 4, 1, 4), (6, 4, 3, 2), (4, 4, 1, 1)],
)
def test_a_round_is_the_least_time_with_whole_steps_of_both_kinds(
    actors: int, interval: int, gradient_steps: int, vector_steps: int
) -> None:
    problem = Problem(32, 27, actors=actors, update_interval=interval)
    assert (problem.round_gradient_steps, problem.round_vector_steps) == (gradient_steps, vector_steps)
    assert vector_steps * actors == gradient_steps * interval


def test_an_overlapped_iteration_has_at_least_32_gradient_steps_and_8_where_a_part_is_simulated() -> None:
    assert [Problem(32, 27, actors=n).overlapped_rounds() for n in (1, 3, 32, 33)] == [32, 11, 1, 1]
    assert [Problem(32, 27, actors=n).overlapped_rounds(simulated=True) for n in (1, 3, 9)] == [8, 3, 1]


def test_an_item_has_the_bytes_of_its_words_or_those_that_the_runtime_stores() -> None:
    assert Problem(32, 27).item_bytes == 108
    assert Problem(32, 27, stored_bytes=45).item_bytes == 45


def test_a_workload_is_on_policy_where_it_has_a_trajectory() -> None:
    assert not Problem(32, 27).on_policy
    assert Problem(32, 27, trajectory_length=1).on_policy


def test_an_item_s_index_weight_and_priority_have_the_sizes_that_the_replay_gives_them() -> None:
    index, number = np.dtype(np.int64).itemsize, np.dtype(np.float32).itemsize
    assert (index, number, index + number) == (INDEX_BYTES, WEIGHT_BYTES, PRIORITY_BYTES)
    assert number == TD_ERROR_BYTES


def test_unless_it_says_otherwise_a_workload_has_one_actor_and_trains_after_each_of_its_steps() -> None:
    assert Problem(32, 27) == Problem(32, 27, actors=1, update_interval=1, trajectory_length=0, epochs=1)
