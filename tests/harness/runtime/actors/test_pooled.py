"""An actor whose environments step together records what one that steps them in turn does."""

import importlib.util

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.environments import Seeded, env_pool
from placerl.harness.environments.env_pool import EnvironmentPool
from placerl.harness.loop.schedule import Environments, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime.actors.actor import Actor
from placerl.harness.runtime.actors.pooled import PooledActor
from placerl.primitives.replay import FieldSpec
from placerl.primitives.replay.storage import transition_fields
from tests.harness.runtime.trainings import on_policy_training, replay_training

needs_envpool = pytest.mark.skipif(
    importlib.util.find_spec("envpool") is None, reason="needs the extra `envpool`"
)
FIELDS = transition_fields(FieldSpec((2,), np.float32), FieldSpec((), np.int64))
NATIVE = Mapping.parse("native-native-cpu")


class Walk(gymnasium.Env):
    """Observes (own number, step); rewards both and the action; ends after `length` steps."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float64)
    action_space = Discrete(3)

    def __init__(self, number, length, truncates):
        self.number, self.length, self.truncates = number, length, truncates

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return np.array([self.number, 0.0]), {}

    def step(self, action):
        self.count += 1
        done = self.count == self.length
        reward = self.number + self.count / 8 + 100.0 * action
        return (
            np.array([self.number, self.count], float), reward, done and not self.truncates,
            done and self.truncates, {},
        )  # fmt: skip


class Pool:
    """Environments behind the pool's interface."""

    action_space = Discrete(3)

    def __init__(self, environments):
        self.environments = environments

    def reset(self, which=None):
        chosen = range(len(self.environments)) if which is None else which
        return np.stack([self.environments[i].reset()[0] for i in chosen])

    def step(self, actions):
        stepped = [e.step(a) for e, a in zip(self.environments, actions, strict=True)]
        return tuple(np.array(column) for column in list(zip(*stepped, strict=True))[:4])


def walks():
    return [Walk(0, 3, False), Walk(1, 4, True), Walk(2, 3, True)]


def test_it_records_what_an_actor_of_single_environments_does():
    fields = FIELDS | {"truncated": FieldSpec((), np.bool_)}
    actors = [
        Actor(walks(), np.random.default_rng(0), fields, 16),
        PooledActor(Pool(walks()), np.random.default_rng(0), fields, 16),
    ]

    def policy(observations, step, rng):
        return rng.integers(3, size=len(observations))

    for steps, chosen in ((5, None), (16, policy), (7, policy)):
        alone, pooled = (actor.collect(steps, chosen) for actor in actors)
        for name, column in alone.items():
            np.testing.assert_array_equal(pooled[name], column, err_msg=name)
        assert actors[0].take_episodes() == actors[1].take_episodes()
    assert actors[0].environment_steps == actors[1].environment_steps == 84


@pytest.mark.parametrize(("options", "applied"), [({}, 3.0), ({"clip": True}, 1.0)])
def test_actions_outside_the_bounds_are_clipped_where_that_is_asked_for(options, applied):
    taken = []

    class Steered(Pool):
        action_space = Box(-1, 1, (1,), np.float32)

        def step(self, actions):
            taken.append(actions.copy())
            return super().step(np.zeros(len(actions), np.int64))

    fields = transition_fields(FieldSpec((2,), np.float32), FieldSpec((1,), np.float32))
    it = PooledActor(Steered(walks()), np.random.default_rng(0), fields, 16, **options)
    batch = it.collect(1, lambda observations, step, rng: np.full((3, 1), 3, np.float32))
    np.testing.assert_array_equal(taken, np.full((1, 3, 1), applied))
    np.testing.assert_array_equal(batch["action"], np.full((3, 1), 3))


def test_without_envpool_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(env_pool, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"envpool: found not installed; allowed: .*extra `envpool`"):
        replay_training(
            workloads.load("cartpole-dqn"), NATIVE, schedule=Schedule(environments=Environments.ENVPOOL)
        )


@needs_envpool
def test_an_environment_that_envpool_does_not_have_is_refused():
    with pytest.raises(UserError, match=r"environment\.id: found 'ContinuousCartPole-v0'"):
        replay_training(
            workloads.load("cartpole-ddpg"), NATIVE, schedule=Schedule(environments=Environments.ENVPOOL)
        )


@needs_envpool
@pytest.mark.parametrize("name", ["hopper-ddpg", "halfcheetah-ddpg"])
def test_envpools_trajectories_are_gymnasiums(name):
    """From the same state and with the same actions; EnvPool's rewards are binary32."""
    environment = workloads.load(name).environment
    pool = EnvironmentPool.of([Seeded(environment, 5), Seeded(environment, 6)])
    observations = pool.reset()
    assert not np.array_equal(*observations)
    alone = Seeded(environment, 0)()
    simulator = alone.unwrapped
    positions = simulator.model.nq - 1  # the position along the way is left out of the observation
    simulator.set_state(np.concatenate([[0.0], observations[1, :positions]]), observations[1, positions:])
    rng = np.random.default_rng(0)
    for _ in range(40):
        actions = rng.uniform(-1, 1, (2, *alone.action_space.shape))
        observations, rewards, terminated, _ = pool.step(actions)
        expected, reward, over, *_ = alone.step(actions[1])
        np.testing.assert_allclose(observations[1], expected, rtol=1e-6, atol=1e-6)
        assert rewards[1] == pytest.approx(reward, rel=1e-5, abs=1e-5)
        assert terminated[1] == over
        if terminated.any():
            break
    pool.close()
    alone.close()


@needs_envpool
def test_the_same_seed_trains_the_same_in_envpool(short):
    runs = []
    for seed in (1, 1, 2):
        training = on_policy_training(
            short("hopper-ppo", actors=3),
            NATIVE,
            seed=seed,
            schedule=Schedule(environments=Environments.ENVPOOL),
        )
        progress = training.advance(16)
        assert progress.environment_steps == 32 * 3
        runs.append(training.learner.parameters())
        training.close()
    for name, value in runs[0].items():
        np.testing.assert_array_equal(value, runs[1][name])
    assert any(np.any(value != runs[2][name]) for name, value in runs[0].items())


@pytest.mark.parametrize("name", ["cartpole-ppo", "pendulum-sac"])
def test_native_environments_train_as_gymnasiums_do(short, name):
    """The same seed gives the same weights, bit for bit."""
    runs = []
    kind = on_policy_training if name.endswith("ppo") else replay_training
    for stepping in Environments.GYMNASIUM, Environments.NATIVE:
        training = kind(short(name, actors=3), NATIVE, seed=1, schedule=Schedule(environments=stepping))
        training.advance(8)
        runs.append(training.learner.parameters())
        training.close()
    for name, value in runs[0].items():
        np.testing.assert_array_equal(value, runs[1][name])


def test_native_environments_that_are_not_there_are_refused():
    with pytest.raises(UserError, match=r"environment\.id: found 'AtariFrames-v0'"):
        replay_training(
            workloads.load("pong-dqn"), NATIVE, schedule=Schedule(environments=Environments.NATIVE)
        )
