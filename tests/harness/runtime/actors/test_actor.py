"""The actor on an environment whose every step is known in advance."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from hypothesis import given
from hypothesis import strategies as st

from placerl.harness.core.errors import UserError
from placerl.harness.runtime.actors import actor as actor_module
from placerl.harness.runtime.actors.actor import Actor, Episode
from placerl.primitives.replay import FieldSpec
from placerl.primitives.replay.storage import transition_fields

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
    np.testing.assert_array_equal(it.observations, [[2, 1]])
    it.collect(2, None)
    assert it.take_episodes() == [Episode(6, 66.0)], "whose return begins from nothing"


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
    ends = [[1, 1], [11, 1], [21, 1], [1, 2], [11, 2], [21, 2]]
    np.testing.assert_array_equal(batch["next_observation"], ends)
    np.testing.assert_array_equal(batch["reward"], [10 * episode + step for episode, step in ends])
    np.testing.assert_array_equal(batch["terminated"], [False] * 3 + [True] * 3)
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


@pytest.mark.parametrize(("low", "high"), [(-1, 4), (-6, 1), (0, 1), (-2, 2), (1, 6)])
def test_least_none_and_most_are_the_bounds_and_their_middle(low, high):
    environment = Counting(100, action_space=Box(np.float32(low), np.float32(high), (1,)))
    it = actor(environment, fields=CONTINUOUS)
    it.collect(3, lambda observations, step, rng: np.array([[(-1.0, 0.0, 1.0)[step]]], np.float32))
    np.testing.assert_array_equal(np.ravel(environment.actions), [low, (low + high) / 2, high])


def test_actions_of_an_environment_that_takes_them_as_they_are_keep_every_bit():
    environment = Counting(100, action_space=Box(np.float32(-1), np.float32(1), (1,)))
    tiny = np.array([[1e-12]], np.float32)  # rounds away next to a bound
    actor(environment, fields=CONTINUOUS).collect(1, lambda observations, step, rng: tiny)
    np.testing.assert_array_equal(environment.actions, tiny)


@pytest.mark.parametrize(("options", "applied"), [({}, [-16, 14]), ({"clip": True}, [-4, 8])])
def test_actions_outside_the_bounds_are_clipped_where_that_is_asked_for_and_stored_as_they_were(
    options, applied
):
    environment = Counting(100, action_space=Box(np.float32(-4), np.float32(8), (1,)))
    it = Actor([environment], np.random.default_rng(0), CONTINUOUS, 16, **options)
    batch = it.collect(2, lambda observations, step, rng: np.array([[(-3.0, 2.0)[step]]], np.float32))
    np.testing.assert_array_equal(np.ravel(environment.actions), applied)
    np.testing.assert_array_equal(batch["action"][:, 0], [-3, 2])


def test_discrete_actions_are_not_clipped():
    environment = Counting(100)
    it = Actor([environment], np.random.default_rng(0), DISCRETE, 16, clip=True)
    it.collect(1, lambda observations, step, rng: np.array([2]))
    assert environment.actions == [2]


def test_seconds_go_to_whoever_spent_them(monkeypatch):
    """On a clock that the policy moves by 3 s and an environment by 5 s a step."""
    now_s = 100.0
    monkeypatch.setattr(actor_module, "perf_counter", lambda: now_s)

    class Slow(Counting):
        def step(self, action):
            nonlocal now_s
            now_s += 5
            return super().step(action)

    def policy(observations, step, rng):
        nonlocal now_s
        now_s += 3
        return np.zeros(len(observations), np.int64)

    it = actor(Slow(9), Slow(9))
    assert (it.environment_s, it.inference_s) == (0, 0)
    for calls in (1, 2):
        it.collect(4, policy)
        now_s += 1000  # between two calls, nobody's
        assert (it.environment_s, it.inference_s) == (calls * 40, calls * 12)


def test_random_actions_cover_the_space():
    discrete = actor(Counting(100), local_storage=200).collect(200, None)["action"]
    assert set(discrete) == {0, 1, 2}
    box = Box(np.float32(-1), np.float32(1), (1,))
    continuous = actor(Counting(100, action_space=box), fields=CONTINUOUS, local_storage=200).collect(
        200, None
    )
    assert -1 <= continuous["action"].min() < -0.9
    assert 0.9 < continuous["action"].max() <= 1


def test_random_actions_of_several_numbers_are_independent():
    box = Box(np.full(3, -1, np.float32), np.full(3, 1, np.float32))
    fields = transition_fields(FieldSpec((2,), np.float32), FieldSpec((3,), np.float32))
    drawn = actor(Counting(100, action_space=box), fields=fields).collect(16, None)["action"]
    assert len(np.unique(drawn)) == 16 * 3


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


@given(
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=2, unique=True),
    st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=8),
)
def test_every_action_is_in_the_space_and_of_its_type(dtype, bounds, chosen):
    low, high = (np.array([bound], dtype) for bound in sorted(bounds))
    space = Box(low, high, (1,), dtype)
    environment = Counting(100, action_space=space)
    it = actor(environment, fields=CONTINUOUS)
    it.collect(len(chosen), lambda observations, step, rng: np.array([[chosen[step]]], np.float32))
    it.collect(8, None)
    assert all(space.contains(action) and action.dtype == dtype for action in environment.actions)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
@pytest.mark.parametrize("policy", [None, lambda observations, step, rng: np.array([2])])
def test_discrete_actions_are_of_the_space_s_type(dtype, policy):
    environment = Counting(100, action_space=Discrete(3, dtype=dtype))
    assert actor(environment).collect(4, policy)["action"].dtype == np.int64
    assert {action.dtype for action in environment.actions} == {np.dtype(dtype)}


def test_an_environment_may_change_what_it_has_returned():
    class Reused(Counting):
        def observe(self):
            self.seen = getattr(self, "seen", np.zeros(2))
            self.seen[:] = self.episode, self.count
            return self.seen

    batches = []
    for kind in (Counting, Reused):
        it = actor(kind(3), kind(2))
        batches.append({name: column.copy() for name, column in it.collect(7, None).items()})
    for name, column in batches[0].items():
        np.testing.assert_array_equal(batches[1][name], column)


def test_an_environment_with_other_actions_than_the_first_is_refused():
    with pytest.raises(
        UserError, match=r"^environment Counting: action_space: found Discrete\(2\); allowed: Discr"
    ):
        actor(Counting(3), Counting(3, action_space=Discrete(2)))


def test_what_an_environment_returns_is_checked_at_its_reset_and_at_each_step():
    class Wrong(Counting):
        def observe(self):
            return super().observe() if self.count < 2 else super().observe()[:1]

    it = actor(Counting(3), Wrong(3))
    it.collect(1, None)
    with pytest.raises(
        UserError, match=r"^environment Wrong: observation: found float64 of shape \(1,\); allowed: "
    ):
        it.collect(1, None)
    with pytest.raises(UserError, match=r"^environment Counting: observation_space: found Box"):
        actor(Counting(3), fields=transition_fields(FieldSpec((3,), np.float32), FieldSpec((), np.int64)))
