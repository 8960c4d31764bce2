"""Acting in the native executor: the algorithm's own actions, with the weights as they are now."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from placerl.primitives import algorithms, learner
from placerl.primitives.algorithms.ddpg import DDPG
from placerl.primitives.algorithms.networks import NetworkDescription

SIZES = {"dqn": (4, 3), "ddpg": (5, 2), "td3": (5, 2), "sac": (5, 2)}


def made(name, backend="native"):
    observations, actions = SIZES[name]
    algorithm = algorithms.create(
        name, observation_shape=(observations,), action_size=actions, network={"hidden": (17, 6)}
    )
    return learner.create(algorithm, backend=backend, batch_size=8, seed=3)


def observations(name, n):
    return np.random.default_rng(n).standard_normal((n, SIZES[name][0]), np.float32)


def batch_for(one, name):
    rng = np.random.default_rng(0)
    batch = {
        column: rng.standard_normal(shape).astype(np.float32)
        for column, (shape, _) in one.algorithm.columns(8).items()
        if column != "weight"
    }
    batch["terminated"] = rng.random(8) < 0.5
    if one.algorithm.discrete:
        batch["action"] = rng.integers(SIZES[name][1], size=8)
    return batch


@pytest.mark.parametrize("name", sorted(SIZES))
def test_actions_are_the_algorithms_before_and_after_training(name):
    one = made(name)
    batch = batch_for(one, name)
    for _ in range(3):
        for n in (1, 4):
            seen = observations(name, n)
            expected = one.algorithm.act(one.parameters(), seen)
            found = one.act(seen)
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(one.act(seen[0]), one.act(seen)[0])
        for _ in range(5):
            one.step(batch, np.ones(8, np.float32))


@pytest.mark.parametrize("name", sorted(SIZES))
def test_exploration_is_the_algorithms(name):
    one, seen = made(name), observations(name, 6)
    for step in (0, 5000, 10**6):
        expected = one.algorithm.explore(one.parameters(), seen, step, np.random.default_rng(7))
        np.testing.assert_allclose(
            one.explore(seen, step, np.random.default_rng(7)), expected, rtol=1e-5, atol=1e-6
        )


def test_an_action_is_the_callers_to_keep():
    one = made("ddpg")
    first = one.act(observations("ddpg", 1))
    kept = first.copy()
    one.act(observations("ddpg", 1) + 1)
    np.testing.assert_array_equal(first, kept)


def test_an_observation_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="observation: found NaN"):
        made("dqn").act(np.full((1, 4), np.nan, np.float32))


def test_loaded_weights_act():
    one, other = made("dqn"), made("dqn", "torch")
    batch = batch_for(one, "dqn")
    for _ in range(20):
        other.step(batch, np.ones(8, np.float32))
    one.load_state_dict(other.state_dict())
    seen = observations("dqn", 5)
    np.testing.assert_array_equal(one.act(seen), other.act(seen))


@dataclass(frozen=True)
class Sorting(DDPG):
    """Acts by an operation that no graph has."""

    def act(self, parameters, observation):
        action = super().act(parameters, observation)
        return torch.sort(action).values if isinstance(action, torch.Tensor) else np.sort(action)


def test_an_act_that_the_executor_cannot_run_stays_with_numpy_and_says_why():
    assert made("ddpg").acting_refusal == ""
    algorithm = Sorting((5,), 2, NetworkDescription(hidden=(6,)), action_kind="continuous")
    one = learner.create(algorithm, backend="native", batch_size=8)
    assert not one.acts_natively
    assert "sort" in one.acting_refusal
    found = one.act(observations("ddpg", 3))
    np.testing.assert_array_equal(found, np.sort(found))


def test_a_call_in_the_middle_of_a_step_is_refused_and_changes_nothing():
    """Inputs and working memory are the executor's, one of each: another thread's call would overwrite them."""
    one, other = made("td3"), made("td3")
    batch, seen, rng = batch_for(one, "td3"), observations("td3", 2), np.random.default_rng(0)
    variant = one.algorithm.variant(0)
    call, draw = one._prepare(variant)
    refused = []

    def draw_and_call():  # a step draws its random numbers after it has loaded its batch
        drawn = draw()
        for use in (lambda: one.step(batch), lambda: one.act(seen), lambda: one.explore(seen, 0, rng)):
            with pytest.raises(
                RuntimeError, match="learner: found another call in progress; allowed: one at a time"
            ):
                use()
            refused.append(use)
        return drawn

    one._calls[variant] = call, draw_and_call
    np.testing.assert_array_equal(one.step(batch).td_errors, other.step(batch).td_errors)
    assert len(refused) == 3
    assert one.gradient_steps == 1
    for key, value in other.state_dict().items():
        np.testing.assert_array_equal(one.state_dict()[key], value)
