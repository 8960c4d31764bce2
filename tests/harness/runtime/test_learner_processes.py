"""Learners in processes take the step of one learner, and are named when they fail."""

import os
import signal

import numpy as np
import psutil
import pytest

from harness import workload
from harness.mapping import Mapping
from harness.runtime.compose import algorithm_of
from harness.runtime.learner_processes import LearnerProcesses, parts_of
from harness.runtime.training import Training
from harness.runtime.unit import UnitError
from primitives.learner.torch_backend import TorchLearner

TORCH = Mapping.parse("torch-native-cpu")
BATCH_SIZE = 25


def batch_of(algorithm, rng):
    batch = {}
    for name, (shape, dtype) in algorithm.columns(BATCH_SIZE).items():
        whole = not dtype.is_floating_point
        batch[name] = (
            rng.integers(0, algorithm.action_size, shape) if whole else rng.random(shape, np.float32)
        )
    return batch, batch.pop("weight")


def test_parts_are_the_batch():
    parts = parts_of(10, 3)
    assert [(part.first, part.end) for part in parts] == [(0, 3), (3, 7), (7, 10)]
    assert [part.rank for part in parts] == [0, 1, 2]


@pytest.mark.parametrize("name", ["hopper-ddpg", pytest.param("pendulum-sac", marks=pytest.mark.slow)])
def test_they_take_the_steps_of_one_learner_up_to_rounding(name):
    algorithm, rng = algorithm_of(workload.load(name)), np.random.default_rng(0)
    whole = TorchLearner(algorithm, batch_size=BATCH_SIZE, seed=1)
    parallel = LearnerProcesses(algorithm, processes=2, batch_size=BATCH_SIZE, seed=2)
    parallel.load_state_dict(whole.state_dict())
    try:
        for _ in range(4):
            batch, weights = batch_of(algorithm, rng)
            found, expected = parallel.step(batch, weights), whole.step(batch, weights)
            np.testing.assert_allclose(found.td_errors, expected.td_errors, rtol=1e-3, atol=1e-4)
            for loss, value in expected.losses.items():
                assert found.losses[loss] == pytest.approx(value, rel=1e-3, abs=1e-4)
        for key, value in whole.parameters().items():
            np.testing.assert_allclose(parallel.parameters()[key], value, rtol=1e-2, atol=2e-3)
        with pytest.raises(ValueError, match="reward: found NaN"):
            parallel.step(batch | {"reward": np.full_like(batch["reward"], np.nan)}, weights)
        parallel.step(batch, weights)  # all still agree on which step is next
    finally:
        parallel.close()
    parallel.close()
    assert not any(psutil.pid_exists(pid) for pid in parallel.pids)


def test_a_learner_that_is_killed_is_named_and_the_others_end(short):
    training = Training(short("cartpole-dqn"), TORCH, learners=2)
    training.warm_up()
    (pid,) = training.learner.pids
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(UnitError, match="learner 1: its process was ended by SIGKILL"):
        training.advance(10**9)
    training.close()
    assert not psutil.pid_exists(pid)
