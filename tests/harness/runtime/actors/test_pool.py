"""Actors in processes follow the learner's policy, train the same for the same seed, and are named when they fail."""

import os
import signal
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import cloudpickle
import gymnasium
import numpy as np
import psutil
import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime.actors import actor as actor_module
from placerl.harness.runtime.actors import pool as actor_pool
from placerl.harness.runtime.actors.actor import Episode
from placerl.harness.runtime.actors.pool import ActorPlan, ActorPool, _Request
from placerl.harness.runtime.compose import actors_of
from placerl.harness.runtime.mapped_parts import learner_of
from placerl.harness.runtime.units.shared_arrays import SharedArrays
from placerl.harness.runtime.units.unit import UnitError
from placerl.harness.workloads.task import columns_of
from placerl.primitives.replay import FieldSpec
from placerl.primitives.replay.storage import transition_fields
from tests.harness.runtime.trainings import on_policy_training, replay_training

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


def pool_of(the_workload, environments, processes, mapping=NATIVE):
    seeds = np.random.SeedSequence(0).spawn(3)
    learner = learner_of(the_workload, mapping, seeds[0])
    plan = actors_of(the_workload, *seeds[1:], columns_of(the_workload), local_storage=20)
    return ActorPool(replace(plan, environments=tuple(environments), together=None), learner, processes)


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


@pytest.mark.parametrize("learner", ["native", "native[dynamic]", "torch[fixed32]"])
def test_actions_follow_the_weights_that_were_published(short, learner):
    mapping = Mapping.parse(f"{learner}-native-cpu")
    pool = pool_of(short("cartpole-dqn"), [lambda: Counter(0)] * 2, 2, mapping)
    learner = pool.learner
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
        training = replay_training(
            short("cartpole-dqn", actors=3),
            NATIVE,
            seed=seed,
            schedule=Schedule(processes=2, overlap=overlap),
        )
        training.advance(30)
        runs.append(training.learner.parameters())
        training.close()
    for name, value in runs[0].items():
        np.testing.assert_array_equal(value, runs[1][name])
    assert any(np.any(value != runs[2][name]) for name, value in runs[0].items())


def test_turns_train_the_same_in_a_process_as_in_a_thread_of_the_same_random_numbers(short):
    """One process has the one actor's environments; its random numbers are those of the plan's first part."""
    the_workload = short("cartpole-dqn")
    beside = replay_training(the_workload, NATIVE, seed=1, schedule=Schedule(processes=1, overlap=8))
    alone = replay_training(the_workload, NATIVE, seed=1, schedule=Schedule(overlap=8))
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
        training = on_policy_training(
            short("hopper-ppo", actors=2), NATIVE, seed=1, schedule=Schedule(processes=2)
        )
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


def test_an_environment_that_returns_something_invalid_is_refused_as_in_one_process(short):
    pool = pool_of(short("cartpole-dqn"), [lambda: Counter(0), lambda: Counter(1, np.nan)], 2)
    for _ in range(2):
        with pytest.raises(
            UserError, match=r"^environment Counter: reward: found nan; allowed: a number that is"
        ):
            pool.collect(4)
    pool.close()


def test_an_actor_that_is_killed_is_named_and_nothing_is_left(short):
    threads = set(threading.enumerate())
    training = replay_training(
        short("cartpole-dqn", actors=2), NATIVE, schedule=Schedule(processes=2, overlap=4)
    )
    training.warm_up()
    pids = training._acting.pids
    descriptors = [arrays.descriptor for arrays in training._acting._shared]
    os.kill(pids[1], signal.SIGKILL)
    with pytest.raises(UnitError, match="actor 1: its process was ended by SIGKILL"):
        training.advance(10_000)
    training.close()
    training.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert set(threading.enumerate()) <= threads
    assert all(arrays.descriptor == -1 for arrays in training._acting._shared)
    assert min(descriptors) > 2


def test_more_processes_than_environments_are_refused(short):
    with pytest.raises(UserError, match=r"actor processes: found 2; allowed: 0 to training\.actors, 1"):
        replay_training(short("cartpole-dqn"), NATIVE, schedule=Schedule(processes=2))


class Policy:
    """An algorithm that notes what it acts on, and takes 3 s of a clock for it."""

    def __init__(self, clock=None):
        self.seen, self.clock = [], clock or [0.0]

    def explore(self, parameters, observations, environment_step, rng):
        self.seen.append((float(parameters["weight"][0]), environment_step))
        self.clock[0] += 3
        return np.ones(len(observations), np.int64)


FIELDS = transition_fields(FieldSpec((4,), np.float32), FieldSpec((), np.int64))


def plan_of(*environments, local_storage=20, **options):
    makers = tuple(lambda environment=environment: environment for environment in environments)
    return ActorPlan(makers, np.random.SeedSequence(1), FIELDS, local_storage, **options)


def weights_of(*values):
    return [SharedArrays.like({"weight": np.array([value])}) for value in values]


def test_an_actor_counts_its_steps_as_a_part_of_everyones_and_reads_the_buffer_that_it_is_told():
    policy = Policy()
    work = actor_pool._work(plan_of(Counter(0), Counter(1)), policy, {}, *weights_of(0.25, 0.5))
    assert work(_Request(3, 100, 6, 0, True)).rows == 6
    assert policy.seen == [(0.25, 100), (0.25, 106), (0.25, 112)]
    answer = work(_Request(7, 300, 6, 1, True))
    assert answer.rows == 14
    assert policy.seen[3:5] == [(0.5, 300), (0.5, 306)]
    # Both end with the seventh step: own steps 13 and 14 of 14, thrice as many of everyone.
    assert answer.episodes == [Episode(300 + 39, 10.0), Episode(300 + 42, 10.0)]


def test_an_actor_without_a_buffer_acts_at_random():
    policy = Policy()
    work = actor_pool._work(plan_of(Counter(0)), policy, {}, *weights_of(0.25, 0.5))
    work(_Request(10, 0, 1, 0, False))
    assert policy.seen == []


def test_an_answer_has_the_seconds_of_its_own_request(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(actor_module, "perf_counter", lambda: clock[0])

    class Slow(Counter):
        def step(self, action):
            clock[0] += 5
            return super().step(action)

    work = actor_pool._work(plan_of(Slow(0)), Policy(clock), {}, *weights_of(0.25))
    for steps in (2, 4):
        answer = work(_Request(steps, 0, 1, 0, True))
        assert (answer.environment_s, answer.inference_s) == (5 * steps, 3 * steps)


@pytest.mark.parametrize(("number", "parts", "sizes"), [(5, 2, [2, 3]), (4, 4, [1] * 4), (3, 1, [3])])
def test_environments_are_dealt_out_in_their_order_each_part_with_its_own_random_numbers(
    number, parts, sizes
):
    plan = plan_of(*map(Counter, range(number)))
    split = plan.split(parts)
    assert [len(part.environments) for part in split] == sizes
    assert sum((part.environments for part in split), ()) == plan.environments
    keys = [part.seed.spawn_key for part in split]
    assert len({*keys, plan.seed.spawn_key}) == parts + 1
    assert [part.seed.spawn_key for part in plan.split(parts)] == keys, "also of a second pool of the plan"


def test_local_storage_has_a_row_for_each_step_of_each_environment():
    columns = plan_of(*map(Counter, range(3)), local_storage=7).columns()
    assert columns["observation"] == FieldSpec((21, 4), np.float32)
    assert columns["reward"] == FieldSpec((21,), np.float32)


@pytest.mark.parametrize(("options", "applied"), [({}, 3.0), ({"clip": True}, 1.0)])
@pytest.mark.parametrize("together", [False, True])
def test_actors_of_a_plan_clip_actions_where_it_says_so(options, applied, together):
    class Steered(Counter):
        action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

        def step(self, action):
            taken.append(float(action[0]))
            return super().step(0)

    class Pool:
        action_space = Steered.action_space

        def __init__(self, makers):
            (self.environment,) = (make() for make in makers)

        def reset(self, which=None):
            return self.environment.reset()[0][None]

        def step(self, actions):
            return tuple(np.array([value]) for value in self.environment.step(actions[0])[:4])

    taken = []
    fields = transition_fields(FieldSpec((4,), np.float32), FieldSpec((1,), np.float32))
    plan = replace(plan_of(Steered(0), **options), fields=fields, together=Pool if together else None)
    plan.build().collect(1, lambda observations, step, rng: np.full((1, 1), 3, np.float32))
    assert taken == [applied]


class Here:
    """A unit in this process, whose answer a test may change."""

    made: ClassVar[list] = []

    def __init__(self, name, build, *shared):
        self.name, self.work, self.pid = name, build(*shared), len(self.made)
        self.ready, self.change = False, {}
        self.made.append(self)

    def wait_until_ready(self):
        self.ready = True

    def submit(self, request):
        self.answer = self.work(request)._replace(**self.change)

    def result(self, limit_s):
        return self.answer


@pytest.fixture
def here(monkeypatch):
    """Pools whose actors are in this process: a function from environments to one."""
    ended = []
    monkeypatch.setattr(Here, "made", [])
    monkeypatch.setattr(actor_pool, "ProcessUnit", Here)
    monkeypatch.setattr(actor_pool, "close_all", ended.extend)

    def make(*environments, processes, weights=0.25):
        followed = Policy()
        learner = SimpleNamespace(
            policy=lambda: followed,
            policy_parameters=lambda: {"weight": np.array([learner.weights])},
            weights=weights,
        )
        return ActorPool(plan_of(*environments), learner, processes)

    make.ended = ended
    return make


def test_a_pool_begins_with_nothing_and_waits_for_its_actors(here):
    pool = here(Counter(0), Counter(1), processes=2)
    assert (pool.environment_steps, pool.environment_s, pool.inference_s, pool.active) == (0, 0, 0, 2)
    assert [unit.name for unit in Here.made] == ["actor 0", "actor 1"]
    assert all(unit.ready for unit in Here.made)
    assert pool.pids == [0, 1]


@pytest.mark.parametrize("processes", [-1, 0, 3])
def test_a_pool_has_one_process_at_least_and_one_an_environment_at_most(here, processes):
    with pytest.raises(ValueError, match=f"^processes: found {processes}; allowed: 1 to 2$"):
        here(Counter(0), Counter(1), processes=processes)
    for fine in (1, 2):
        here(Counter(0), Counter(1), processes=fine)


@pytest.mark.parametrize(("active", "steps", "each"), [(2, 0, 0), (2, 21, 21), (1, 9, 23)])
def test_what_the_local_storage_does_not_hold_is_not_asked_for(here, active, steps, each):
    pool = here(*map(Counter, range(5)), processes=2)
    pool.active = active
    with pytest.raises(ValueError, match=f"^steps: found {each} of each environment; allowed: 1 to 20$"):
        pool.submit(steps)
    assert pool.environment_steps == 0


def test_those_who_are_active_take_the_steps_of_all(here):
    pool = here(*map(Counter, range(5)), processes=2)
    pool.active = 1  # 2 environments of 5
    columns = pool.collect(8)
    assert len(columns["reward"]) == pool.environment_steps == 2 * 20
    np.testing.assert_array_equal(columns["observation"][:, 0], [0, 1] * 20)


def test_steps_beyond_those_requested_are_taken_off_the_next_request(here):
    pool = here(*map(Counter, range(5)), processes=2)
    pool.active = 1  # 2 environments of 5
    taken = [len(pool.collect(1)["reward"]) for _ in range(6)]
    assert taken == [6, 4, 6, 4, 6, 4], "5 on average, of 2 environments"
    pool.collect(1)
    pool.active = 2
    assert len(pool.collect(1)["reward"]) == 5
    assert pool.environment_steps == 8 * 5 + 1
    pool.active = 1
    assert len(pool.collect(1)["reward"]) == 4
    assert pool.environment_steps == 9 * 5


def test_step_numbers_do_not_run_ahead_while_actors_pause(here):
    pool = here(*map(Counter, range(4)), processes=2)
    pool.active = 1  # 2 environments of 4
    pool.collect(5)
    assert [step for _, step in pool.learner.policy().seen] == list(range(0, 20, 2))
    assert pool.environment_steps == 20
    assert [episode.environment_step for episode in pool.take_episodes()] == [19, 20]


def test_requests_explore_with_what_was_published_last_unless_they_are_random(here):
    pool = here(Counter(0), Counter(1), processes=2)
    learner = pool.learner
    for weights in (0.5, 0.75, 1.0):
        before = learner.weights
        learner.weights = weights
        pool.collect(1)
        pool.publish()
        pool.collect(1, explore=False)
        pool.submit(1)
        pool.result()
        assert [weight for weight, _ in learner.policy().seen[-4:]] == [before] * 2 + [weights] * 2


def test_an_answer_of_another_size_is_told_by_the_actors_name(here):
    pool = here(*map(Counter, range(5)), processes=2)
    Here.made[1].change = {"rows": 11}
    with pytest.raises(UnitError, match=r"^actor 1: returned invalid data: 11 rows for 12$"):
        pool.collect(4)


def test_seconds_are_those_of_the_slowest_actor_of_each_request(here):
    pool = here(Counter(0), Counter(1), processes=2)
    for number, (environment_s, inference_s) in enumerate(
        (((3.0, 4.0), (8.0, 1.0)), ((7.0, 2.0), (6.0, 5.0)))
    ):
        for unit, one, other in zip(Here.made, environment_s, inference_s, strict=True):
            unit.change = {"environment_s": one, "inference_s": other}
        pool.collect(1)
        assert (pool.environment_s, pool.inference_s) == [(4, 8), (4 + 7, 8 + 6)][number]


def test_when_an_actor_cannot_be_made_nothing_is_left_of_the_others(here, monkeypatch):
    arrays = []
    made = SharedArrays.__init__
    monkeypatch.setattr(
        SharedArrays, "__init__", lambda self, *rest: (made(self, *rest), arrays.append(self))[0]
    )

    def fail(unit):
        if unit.name == "actor 1":
            raise UnitError("actor 1: OSError: the simulator is gone")

    monkeypatch.setattr(Here, "wait_until_ready", fail)
    with pytest.raises(UnitError, match="the simulator is gone"):
        here(Counter(0), Counter(1), processes=2)
    assert here.ended == Here.made
    assert len(Here.made) == 2
    assert arrays
    assert all(one.descriptor == -1 for one in arrays), "their memory is given back"
