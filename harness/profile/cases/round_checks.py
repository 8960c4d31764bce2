"""Checks that each part of a round is correct by its definition, on the same objects that are timed."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from placerl.harness.pieces.base import expect_equal, random_transitions
from placerl.harness.pieces.learners import (
    check_step,
    definition_of,
    expect_td_errors,
    expected_td_errors,
)
from placerl.harness.workloads import Workload
from placerl.primitives.learner import Learner
from placerl.primitives.learner.aware_training import FixedPointLearner
from placerl.primitives.learner.fused import FusedSteps
from placerl.primitives.replay import LinearSchedule
from placerl.primitives.replay.base import Replay, Sample

CHECKED = 64


def check_collect(collect: Callable[[int], Mapping[str, npt.NDArray]]) -> None:
    """Check that the next observation of a step is the observation of the step after it, unless the episode ended.

    Args:
        collect: takes a number of vector steps; returns their transitions.
    """
    rows = {name: column.copy() for name, column in collect(2).items()}
    actors = len(rows["terminated"]) // 2
    going_on = ~rows["terminated"][:actors].astype(bool)
    expect_equal(
        rows["observation"][actors:][going_on],
        rows["next_observation"][:actors][going_on],
        "next observation",
    )


def check_replay(workload: Workload, replay: Replay, out: Sample) -> None:
    """Check a replay: insertion, batches, importance weights and updated priorities.

    Inserted transitions must be read back unchanged, a batch must hold the rows that its indices name, and weights
    and priorities must be those that the workload's settings define.

    Args:
        replay: the replay; it is changed.
        out: an earlier sample, whose arrays the checked sample reuses.
    """
    written = random_transitions(replay.storage.fields, 2, np.random.default_rng(3))
    read = _gathered(replay, replay.insert(written))
    for name, column in written.items():
        expect_equal(read[name], column, name)

    settings, batch_size = workload.replay, len(out.indices)
    drawn = getattr(replay, "samples_drawn", 0)
    sample = replay.sample(batch_size, np.random.default_rng(4), out=out)
    for name, column in _gathered(replay, sample.indices).items():
        expect_equal(sample.batch[name], column, name)
    expected = np.ones(batch_size)
    if settings.prioritized:
        priorities = _priorities(replay, sample.indices)
        beta = LinearSchedule(settings.beta_initial, settings.beta_final, settings.beta_steps)
        expected = (priorities.min() / priorities) ** beta(drawn)
    np.testing.assert_allclose(sample.weights, expected, rtol=1e-3, err_msg="weights")

    if settings.prioritized:
        indices = np.arange(min(CHECKED, len(replay)))
        td_errors = np.random.default_rng(5).standard_normal(len(indices))
        replay.update_priorities(indices, td_errors)
        raised = (np.abs(td_errors) + settings.epsilon) ** settings.alpha
        np.testing.assert_allclose(_priorities(replay, indices), raised, rtol=1e-4, err_msg="priorities")


def check_learn(workload: Workload, learner: Learner, sample: Sample) -> None:
    """Take a gradient step on a sample, and raise AssertionError unless its results are correct; see `check_step`."""
    check_step(workload, learner, sample.batch, sample.weights)


def check_steps(workload: Workload, replay: Any, learner: Learner, steps: FusedSteps) -> None:
    """Take one fused gradient step, and check the priorities that it leaves.

    They must be those of the TD errors of the batch that `replay.sample` draws with the same random generator.
    """
    sample = replay.sample(learner.batch_size, np.random.default_rng(6))
    if isinstance(learner, FixedPointLearner):
        expected = definition_of(learner).step(sample.batch, sample.weights).td_errors
    else:
        expected = expected_td_errors(workload, learner, sample.batch, sample.weights)
    steps.run(1, np.random.default_rng(6))
    steps.drain()
    if not replay.alpha:  # all priorities are 1, whatever the TD errors
        expect_equal(_priorities(replay, sample.indices), np.ones(len(sample.indices)), "priorities")
        return
    td_errors = _priorities(replay, sample.indices) ** (1 / replay.alpha) - replay.epsilon
    expect_td_errors(td_errors, np.abs(_last_of_repeated(sample.indices, expected)))


def _gathered(replay: Any, indices: npt.NDArray) -> dict[str, npt.NDArray]:
    columns: dict[str, npt.NDArray] = (
        replay.gather(indices) if hasattr(replay, "gather") else replay.storage.gather(indices)
    )
    return columns


def _priorities(replay: Any, indices: npt.NDArray) -> npt.NDArray[np.float64]:
    priorities = replay.tree.get(indices) if hasattr(replay, "tree") else replay.priorities(indices)
    return np.asarray(priorities, np.float64)


def _last_of_repeated(indices: npt.NDArray, values: npt.NDArray) -> npt.NDArray:
    """Return for each index the value at its last occurrence, as an update leaves it."""
    last = {int(index): value for index, value in zip(indices, values, strict=True)}
    return np.array([last[int(index)] for index in indices])
