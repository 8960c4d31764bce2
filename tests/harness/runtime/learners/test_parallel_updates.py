"""Gradients in parts are those of the whole batch, whoever computes them, and their seconds are counted apart."""

import re
import threading

import numpy as np
import pytest
import torch

from placerl.harness import workloads
from placerl.harness.runtime.learners import parallel_updates
from placerl.harness.runtime.learners.parallel_updates import ParallelLearner, ParallelUpdates, aggregated
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives.learner.torch.torch_backend import TorchLearner


@pytest.mark.parametrize("name", ["hopper-ddpg", "cartpole-dqn", "pendulum-sac"])
def test_gradients_in_parts_are_those_of_the_batch(name):
    algorithm = algorithm_of(workloads.load(name))
    rng = np.random.default_rng(0)
    parallel = ParallelLearner(algorithm, batch_size=24, trainers=2, seed=1)
    whole = TorchLearner(algorithm, batch_size=24, seed=1)
    for parts in ((24,), (10, 14), (8, 9, 7), (22, 1, 1)):
        batch = {}
        for column, (shape, dtype) in algorithm.columns(24).items():
            if dtype is torch.int64:
                batch[column] = rng.integers(0, algorithm.action_size, shape)
            else:
                batch[column] = rng.random(shape, np.float32)
        weights = batch.pop("weight")
        parallel.updates.parts = parts
        outcomes = [made.step(batch, weights) for made in (parallel, whole)]
        np.testing.assert_allclose(outcomes[0].td_errors, outcomes[1].td_errors, rtol=1e-3, atol=1e-4)
        for loss, value in outcomes[1].losses.items():
            assert outcomes[0].losses[loss] == pytest.approx(value, rel=1e-3, abs=1e-4)
    for key, value in whole.parameters().items():
        np.testing.assert_allclose(parallel.parameters()[key], value, rtol=1e-2, atol=2e-3)
    assert parallel.updates.trainers_s > 0
    assert parallel.updates.synchronisation_s > 0
    parallel.close()


def test_parts_that_are_not_the_batch_are_refused():
    algorithm = algorithm_of(workloads.load("hopper-ddpg"))
    parallel = ParallelLearner(algorithm, batch_size=8, trainers=1)
    batch = {
        name: np.zeros(shape, np.float32)
        for name, (shape, _) in algorithm.columns(8).items()
        if name != "weight"
    }
    for parts in ((4, 3), (4, 2, 2)):
        parallel.updates.parts = parts
        with pytest.raises(ValueError, match="parts: found"):
            parallel.step(batch)
    parallel.close()


def line(parameters, batch):
    """A straight line's squared error, and the error of each sample."""
    error = parameters["slope"] * batch["x"] - batch["y"]
    return (error * error).mean(), error


SLOPE = {"slope": torch.tensor(2.0)}


def points(number):
    x = torch.arange(1.0, number + 1)
    return {"x": x, "y": x * x}


@pytest.mark.parametrize("parts", [(), (6,), (4, 2), (1, 2, 3)])
def test_no_parts_are_one_and_unequal_ones_weigh_by_their_size(parts):
    updates = ParallelUpdates(2)
    updates.parts = parts
    batch = points(6)
    gradients, value, error = updates.gradients(line, SLOPE, batch)
    expected = 2 * batch["x"] - batch["y"]
    torch.testing.assert_close(error, expected)
    torch.testing.assert_close(value, (expected**2).mean())
    torch.testing.assert_close(gradients, {"slope": (2 * expected * batch["x"]).mean()})
    updates.close()


@pytest.mark.parametrize("parts", [(4, 3), (5, 4), (4, 2, 2)])
def test_parts_that_are_not_the_batch_or_too_many_are_refused_with_what_is_allowed(parts):
    updates = ParallelUpdates(1)
    updates.parts = parts
    words = re.escape(f"parts: found {parts}; allowed: at most 2 that sum up to 8")
    with pytest.raises(ValueError, match=f"^{words}$"):
        updates.gradients(line, SLOPE, points(8))
    updates.close()


def test_seconds_are_counted_for_learner_trainers_and_putting_together(monkeypatch):
    """Each thread has a clock: the learner begins its part at 2 s, and has all gradients at 11 s."""
    updates = ParallelUpdates(1)
    assert (updates.learner_s, updates.trainers_s, updates.synchronisation_s) == (0, 0, 0)
    own = threading.get_ident()
    told = {True: iter([1.0, 2.0, 5.0, 11.0]), False: iter([50.0, 55.0])}
    monkeypatch.setattr(parallel_updates, "perf_counter", lambda: next(told[threading.get_ident() == own]))
    updates.parts = (4, 4)
    updates.gradients(line, SLOPE, points(8))
    assert (updates.learner_s, updates.trainers_s, updates.synchronisation_s) == (3, 5, 11 - 1 - 3)
    told[True] = iter([20.0, 21.0, 23.0])
    updates.parts = (8,)
    updates.gradients(line, SLOPE, points(8))
    assert (updates.learner_s, updates.trainers_s, updates.synchronisation_s) == (3 + 2, 5, 7), "nobody else"
    updates.close()


def test_gradients_are_put_together_by_name_in_whatever_order_each_part_has_them():
    one, two = torch.ones(2), torch.full((2,), 5.0)
    parts = [({"weight": one, "bias": two}, one[0], ()), ({"bias": one, "weight": two}, one[0], ())]
    gradients, _, _ = aggregated(parts, (3, 1))
    assert {name: value.tolist() for name, value in gradients.items()} == {"weight": [2, 2], "bias": [4, 4]}


def test_without_a_seed_it_starts_as_one_learner_does():
    algorithm = algorithm_of(workloads.load("cartpole-dqn"))
    parallel = ParallelLearner(algorithm, batch_size=4, trainers=1)
    alone = TorchLearner(algorithm, batch_size=4)
    for name, value in alone.parameters().items():
        np.testing.assert_array_equal(parallel.parameters()[name], value)
    parallel.close()
