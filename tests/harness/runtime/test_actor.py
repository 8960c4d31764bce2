"""The actor on an environment whose every step is known in advance."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from harness.runtime.actor import Actor, Episode
from primitives.replay import FieldSpec
from primitives.replay.storage import transition_fields

CONTINUOUS = transition_fields(FieldSpec((2,), np.float32), FieldSpec((1,), np.float32))
DISCRETE = transition_fields(FieldSpec((2,), np.float32), FieldSpec((), np.int64))


class Counting(gymnasium.Env):
    """Observes (episode, step); rewards 10 * episode + step; ends after `length` steps in the given way."""

    def __init__(self, length, truncates=False, action_space=None, first=0):
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = action_space or Discrete(3)
        self.length, self.truncates, self.episode = length, truncates, first
        self.actions = []
        self.closed = False

    def observe(self):
        return np.array([self.episode, self.count], np.float64)

    def reset(self, *, seed=None, options=None):
        self.episode += 1
        self.count = 0
        return self.observe(), {}

    def step(self, action):
        self.actions.append(np.copy(action))
        self.count += 1
        done = self.count == self.length
        reward = 10.0 * self.episode + self.count
        return self.observe(), reward, done and not self.truncates, done and self.truncates, {}

    def close(self):
        self.closed = True


def actor(*environments, fields=DISCRETE, local_storage=16):
    return Actor(environments, np.random.default_rng(0), fields, local_storage)


@pytest.mark.parametrize("truncates", [False, True])
def test_an_episode_ends_and_only_termination_is_recorded(truncates):
    it = actor(Counting(3, truncates))
    batch = it.collect(4, None)
    np.testing.assert_array_equal(batch["observation"], [[1, 0], [1, 1], [1, 2], [2, 0]])
    np.testing.assert_array_equal(batch["next_observation"], [[1, 1], [1, 2], [1, 3], [2, 1]])
    np.testing.assert_array_equal(batch["reward"], [11, 12, 13, 21])
    np.testing.assert_array_equal(batch["terminated"], [False, False, not truncates, False])
    assert it.take_episodes() == [Episode(3, 36.0)]
    assert it.take_episodes() == []
    assert it.environment_steps == 4


def test_several_environments_share_one_inference():
    seen = []

    def policy(observations, environment_step, rng):
        seen.append((observations.copy(), environment_step))
        return observations[:, 0].astype(np.int64) % 3

    environments = [Counting(2, first=10 * i) for i in range(3)]
    it = actor(*environments)
    batch = it.collect(2, policy)
    assert [step for _, step in seen] == [0, 3]
    np.testing.assert_array_equal(seen[0][0], [[1, 0], [11, 0], [21, 0]])
    np.testing.assert_array_equal(batch["observation"][:3], seen[0][0])
    np.testing.assert_array_equal(batch["action"], [1, 2, 0, 1, 2, 0])
    assert [int(a) for e in environments for a in e.actions] == [1, 1, 2, 2, 0, 0]
    assert [e.environment_step for e in it.take_episodes()] == [4, 5, 6]


def test_the_batch_has_the_storage_columns_and_dtypes():
    batch = actor(Counting(5)).collect(3, None)
    assert {name: (a.shape, a.dtype) for name, a in batch.items()} == {
        name: ((3, *field.shape), np.dtype(field.dtype)) for name, field in DISCRETE.items()
    }


def test_actions_are_scaled_to_the_bounds_and_stored_unscaled():
    environment = Counting(100, action_space=Box(np.float32(-4), np.float32(8), (1,)))
    it = actor(environment, fields=CONTINUOUS)
    batch = it.collect(3, lambda observations, step, rng: np.array([[(-1.0, 0.0, 1.0)[step]]], np.float32))
    np.testing.assert_array_equal(batch["action"][:, 0], [-1, 0, 1])
    np.testing.assert_array_equal(np.ravel(environment.actions), [-4, 2, 8])


def test_random_actions_cover_the_space():
    discrete = actor(Counting(100), local_storage=200).collect(200, None)["action"]
    assert set(discrete) == {0, 1, 2}
    box = Box(np.float32(-1), np.float32(1), (1,))
    continuous = actor(Counting(100, action_space=box), fields=CONTINUOUS, local_storage=200).collect(
        200, None
    )
    assert -1 <= continuous["action"].min() < -0.9
    assert 0.9 < continuous["action"].max() <= 1


def test_it_counts_its_seconds_and_closes():
    environment = Counting(4)
    it = actor(environment)
    it.collect(10, None)
    assert it.environment_s > 0
    assert it.inference_s > 0
    it.close()
    assert environment.closed


@pytest.mark.parametrize("steps", [0, 17])
def test_more_than_the_local_storage_holds_is_refused(steps):
    it = actor(Counting(4))
    with pytest.raises(ValueError, match="steps: found"):
        it.collect(steps, None)
    assert it.environment_steps == 0
