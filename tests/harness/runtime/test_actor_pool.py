"""Actors in processes follow the learner's policy, train the same for the same seed, and are named when they fail."""

import os
import signal
import sys
from dataclasses import replace

import cloudpickle
import gymnasium
import numpy as np
import psutil
import pytest

from harness.errors import UserError
from harness.mapping import Mapping
from harness.runtime.actor_pool import ActorPool
from harness.runtime.compose import actors_of, columns_of, learner_of
from harness.runtime.on_policy import OnPolicyTraining
from harness.runtime.training import Training
from harness.runtime.unit import UnitError

cloudpickle.register_pickle_by_value(sys.modules[__name__])
NATIVE = Mapping.parse("native-native-cpu")


class Counter(gymnasium.Env):
    """Observes how often it was stepped, and its own number; an episode takes ten steps."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, number, rewards=1.0):
        self.number, self.rewards, self.steps = number, rewards, 0

    def _observation(self):
        return np.array([self.number, self.steps, 0, 0], np.float32)

    def reset(self, **_):
        return self._observation(), {}

    def step(self, action):
        self.steps += 1
        return self._observation(), self.rewards, self.steps % 10 == 0, False, {}


class Broken(Counter):
    """Gives up at its third step."""

    def step(self, action):
        if self.steps == 2:
            raise OSError("the simulator is gone")
        return super().step(action)


def pool_of(the_workload, environments, processes):
    seeds = np.random.SeedSequence(0).spawn(3)
    learner = learner_of(the_workload, NATIVE, 8, seeds[0])
    plan = actors_of(the_workload, *seeds[1:], columns_of(the_workload), local_storage=20)
    return ActorPool(replace(plan, environments=tuple(environments)), learner, processes)


def test_rows_come_in_the_order_of_one_actor(short):
    pool = pool_of(short("cartpole-dqn"), [lambda n=n: Counter(n) for n in range(5)], 2)
    for first in (0, 4):
        columns = pool.collect(4)
        observations = columns["observation"].reshape(4, 5, 4)
        np.testing.assert_array_equal(observations[:, :, 0], [range(5)] * 4)
        np.testing.assert_array_equal(observations[:, 0, 1], range(first, first + 4))
        np.testing.assert_array_equal(columns["next_observation"][:, 1], columns["observation"][:, 1] + 1)
    assert pool.environment_steps == 40
    pool.collect(4)
    episodes = pool.take_episodes()
    assert [episode.episode_return for episode in episodes] == [10.0] * 5
    assert all(45 <= episode.environment_step <= 50 for episode in episodes)
    assert not pool.take_episodes()
    assert pool.environment_s > 0
    pool.close()


def test_actions_follow_the_weights_that_were_published(short):
    pool = pool_of(short("cartpole-dqn"), [lambda: Counter(0)] * 2, 2)
    learner = pool._learner
    state = learner.state_dict()
    state |= {name: np.zeros_like(value) for name, value in state.items() if name != "generator"}
    for wanted in (1, 0):
        state["q/1.bias"] = np.eye(2, dtype=np.float32)[wanted]
        learner.load_state_dict(state)
        pool.environment_steps = 10**9  # epsilon is at its least
        pool.collect(20)  # acts on what was published before
        pool.publish()
        chosen = pool.collect(20)["action"]
        assert (chosen == wanted).mean() > 0.6  # all of 40 but one, at the least epsilon, 0.05
    pool.close()


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [0, 8])
def test_the_same_seed_and_processes_train_the_same(short, overlap):
    runs = []
    for seed in (1, 1, 2):
        training = Training(short("cartpole-dqn", actors=3), NATIVE, seed=seed, processes=2, overlap=overlap)
        training.advance(30)
        runs.append(training.learner.parameters())
        training.close()
    for name, value in runs[0].items():
        np.testing.assert_array_equal(value, runs[1][name])
    assert any(np.any(value != runs[2][name]) for name, value in runs[0].items())


def test_turns_train_the_same_in_a_process_as_in_a_thread_of_the_same_random_numbers(short):
    """One process has the one actor's environments; its random numbers are those of the plan's first part."""
    the_workload = short("cartpole-dqn")
    beside = Training(the_workload, NATIVE, seed=1, processes=1, overlap=8)
    alone = Training(the_workload, NATIVE, seed=1, overlap=8)
    alone._acting._actor._rng = np.random.default_rng(np.random.SeedSequence(1).spawn(4)[1].spawn(1)[0])
    for training in (beside, alone):
        training.advance(30)
        training.close()
    assert beside.environment_steps == alone.environment_steps
    for name, value in beside.learner.parameters().items():
        np.testing.assert_array_equal(value, alone.learner.parameters()[name])


@pytest.mark.slow
def test_ppo_trains_the_same_in_processes(short):
    runs = []
    for _ in range(2):
        training = OnPolicyTraining(short("hopper-ppo", actors=2), NATIVE, seed=1, processes=2)
        progress = training.advance(16)
        assert progress.environment_steps == 64
        runs.append(training.learner.parameters())
        training.close()
    for name, value in runs[0].items():
        np.testing.assert_array_equal(value, runs[1][name])


def test_an_environment_that_breaks_is_told_by_the_actors_name(short):
    pool = pool_of(short("cartpole-dqn"), [lambda: Counter(0), lambda: Broken(1)], 2)
    with pytest.raises(UnitError, match="actor 1: OSError: the simulator is gone"):
        pool.collect(4)
    pool.close()


def test_an_environment_that_returns_rubbish_is_told_by_the_actors_name(short):
    pool = pool_of(short("cartpole-dqn"), [lambda: Counter(0), lambda: Counter(1, np.nan)], 2)
    with pytest.raises(UnitError, match=r"actor 1: returned rubbish: NaN or infinity in 'reward'"):
        pool.collect(4)
    pool.close()


def test_an_actor_that_is_killed_is_named_and_the_others_end(short):
    training = Training(short("cartpole-dqn", actors=2), NATIVE, processes=2, overlap=4)
    training.warm_up()
    pids = training._acting.pids
    os.kill(pids[1], signal.SIGKILL)
    with pytest.raises(UnitError, match="actor 1: its process was ended by SIGKILL"):
        training.advance(10_000)
    training.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_more_processes_than_environments_are_refused(short):
    with pytest.raises(UserError, match=r"actor processes: found 2; allowed: 0 to training\.actors, 1"):
        Training(short("cartpole-dqn"), NATIVE, processes=2)
