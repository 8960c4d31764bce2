"""The loop of PPO: seeds, counts, samples of its own, early stopping, and what other systems are given."""

from types import SimpleNamespace

import numpy as np
import pytest

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.loop import real_time, virtual_time
from placerl.harness.loop.schedule import Environments, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.measure import full_speed
from placerl.harness.measure.conditions import torch_threads
from placerl.harness.runtime import on_policy, on_policy_loop
from placerl.harness.runtime import training as off_policy
from placerl.harness.runtime.actors.in_process import InlineActors
from placerl.harness.runtime.mapped_parts import learner_of
from placerl.harness.runtime.on_policy import OnPolicyTraining
from placerl.harness.runtime.training import Training
from tests.harness.mapping.links import Links
from tests.harness.runtime.trainings import on_policy_training, started

MAPPING = Mapping.parse("torch-native-cpu")


def small(environment=("CartPole-v1", (4,), "discrete", 2), **algorithm):
    """A PPO workload of 2 actors, 32 steps and 2 epochs."""
    identity, shape, kind, size = environment
    tables = workloads.load("hopper-ppo").tables()
    tables["environment"] |= {
        "id": identity,
        "observation_shape": shape,
        "action_kind": kind,
        "action_size": size,
    }
    tables["algorithm"] |= {"trajectory_length": 32, "epochs": 2} | algorithm
    tables["network"]["hidden"] = [16]
    tables["replay"]["capacity"] = 64
    tables["training"] |= {"batch_size": 16, "batch_sizes": [16], "actors": 2, "learning_starts": 64}
    return workloads.from_tables(tables, "test")


def test_a_native_learner_has_the_threads_of_the_run(monkeypatch):
    monkeypatch.setattr(
        "os.sched_getaffinity", lambda _: {0, 1}
    )  # of a machine with one core, two threads are refused
    mapping = Mapping.parse("native-native-cpu")
    for item in (small(), workloads.load("cartpole-ddpg")):
        with torch_threads(1):  # put back afterwards
            training = started(item, mapping, schedule=Schedule(threads=2, processes=0))
        training.close()
        assert training.learner.executable.threads == 2


PENDULUM = ("Pendulum-v1", (3,), "continuous", 1)


@pytest.mark.parametrize("environment", [("CartPole-v1", (4,), "discrete", 2), PENDULUM])
def test_the_same_seed_trains_the_same(environment):
    runs = []
    for seed in (1, 1, 2):
        training = started(small(environment), MAPPING, seed=seed)
        training.advance(16)
        runs.append(training.learner.parameters())
        training.close()
    for name, value in runs[0].items():
        np.testing.assert_array_equal(value, runs[1][name])
    assert any(np.any(value != runs[2][name]) for name, value in runs[0].items())


def test_steps_are_counted_in_whole_iterations():
    training = on_policy_training(small(), MAPPING)
    warm_up = training.warm_up()
    progress = training.advance(9)  # an iteration has 2 epochs of 4 minibatches
    training.close()
    assert (warm_up.gradient_steps, warm_up.environment_steps) == (8, 64)
    assert (progress.gradient_steps, progress.environment_steps) == (16, 128)
    assert training.gradient_steps == training.learner.gradient_steps == 24
    assert training.environment_steps == 192
    assert progress.terms_s.keys() == {"environment", "infer", "prepare", "learner"}
    assert all(0 < seconds < progress.wall_s for seconds in progress.terms_s.values())


def test_a_policy_that_has_moved_far_stops_for_the_rest_of_the_iteration():
    training = on_policy_training(small(target_kl=1e-9, policy_learning_rate=0.1), MAPPING)
    training.warm_up()
    state = training.learner.state_dict()
    training.close()
    assert state["value_adam/step"] == 8
    # The first minibatch finds no divergence, the second does and is the last one to move the policy.
    assert state["policy_adam/step"] == training.policy_steps == 2


def test_the_environment_gets_clipped_actions_and_the_samples_those_drawn():
    schedule = Schedule(environments=Environments.GYMNASIUM)
    training = on_policy_training(small(PENDULUM, initial_log_std=2.0), MAPPING, schedule=schedule)
    applied = []
    for environment in training._acting._actor._environments:
        step = environment.step
        environment.step = lambda action, step=step: (applied.append(action), step(action))[1]
    drawn = training._acting.collect(32)["action"]
    training.close()
    assert np.abs(drawn).max() > 3
    assert np.abs(applied).max() == 2  # Pendulum's bound
    np.testing.assert_allclose(np.reshape(applied, -1), 2 * np.clip(drawn[:, 0], -1, 1), rtol=1e-6)


def test_truncation_is_told_apart_from_termination():
    training = on_policy_training(small(PENDULUM, trajectory_length=200), MAPPING)
    columns = training._acting.collect(200)
    training.close()
    assert columns["truncated"].sum() == 2  # Pendulum never terminates, and is cut after 200 steps
    assert not columns["terminated"].any()


def test_each_algorithm_gets_its_loop():
    for name, loop in (("cartpole-dqn", Training), ("hopper-ppo", OnPolicyTraining)):
        training = started(workloads.load(name), MAPPING)
        assert type(training) is loop
        training.close()


def test_a_batch_is_at_most_an_iteration():
    with pytest.raises(UserError) as refused:
        on_policy_training(small(), MAPPING, batch_size=65)
    assert "batch_size: found 65; allowed: 1 to actors * trajectory_length, 64" in str(refused.value)
    assert not str(refused.value).endswith(".0")
    training = on_policy_training(small(), MAPPING, batch_size=64)
    assert training.warm_up().gradient_steps == 2, "one minibatch an epoch"
    training.close()


def test_samples_that_fill_no_minibatch_are_left_out():
    training = on_policy_training(small(), MAPPING, batch_size=24)
    assert training.learner.batch_size == 24
    assert training.advance(5).gradient_steps == 2 * (2 * 2)  # 2 iterations of 2 epochs of 2
    training.close()


def test_advancing_by_nothing_is_refused_and_by_one_step_is_an_iteration():
    training = on_policy_training(small(), MAPPING)
    for number in (0, -1):
        with pytest.raises(ValueError, match=f"gradient_steps: found {number}; allowed: at least 1"):
            training.advance(number)
    assert training.gradient_steps == 0, "nothing was done"
    assert training.advance(1).gradient_steps == 8
    training.close()


def test_a_stretch_takes_what_was_spent_between_its_ends():
    training = on_policy_training(small(), MAPPING)
    assert type(training._acting) is InlineActors
    told_s = iter([1.0, 4.0, 10.0, 50.0])
    training._time.now_s = lambda: next(told_s)
    stretches = training.warm_up(), training.advance(8)
    assert [stretch.wall_s for stretch in stretches] == [3, 40]
    for term, spent_s in training._terms_s().items():
        assert sum(stretch.terms_s[term] for stretch in stretches) == pytest.approx(spent_s)
    training.close()


def test_the_bytes_of_a_batch_are_those_that_the_learner_is_given():
    training = on_policy_training(small(PENDULUM), MAPPING)
    given, step = [], training.learner.step
    training.learner.step = lambda batch, **options: (
        given.append(sum(column.nbytes for column in batch.values())) or step(batch, **options)
    )
    training.warm_up()
    assert set(given) == {training._batch_bytes}
    training.close()


@pytest.mark.parametrize("loop", [on_policy_training, started])
def test_the_seed_is_0_unless_it_is_given(loop):
    runs = [loop(small(), MAPPING, **seed) for seed in ({}, {"seed": 0}, {"seed": 1})]
    first, same, other = (training.learner.parameters() for training in runs)
    for name, value in first.items():
        np.testing.assert_array_equal(value, same[name])
    assert any(np.any(value != other[name]) for name, value in first.items())
    for training in runs:
        training.close()


@pytest.mark.parametrize(
    ("mapping", "options", "expected"),
    [
        (MAPPING, {}, 1),
        (MAPPING, {"threads": 3}, 3),
        (Mapping.parse("native-native-cpu"), {"threads": 3}, 1),  # the native learner's threads are its own
    ],
)
def test_pytorch_has_the_threads_of_its_learner(monkeypatch, mapping, options, expected):
    asked = []
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr("torch.set_num_threads", lambda threads: asked.append(threads))
    on_policy_training(small(), mapping, schedule=Schedule(**options)).close()
    assert asked == [expected]


def test_numpy_has_one_thread(monkeypatch):
    """`PPO.prepare` and actors have small products, which two threads do more slowly."""
    asked = []
    monkeypatch.setattr(on_policy_loop, "set_blas_threads", asked.append)
    on_policy_training(small(), MAPPING, schedule=Schedule(threads=2, processes=0)).close()
    assert asked == [1]


class Started(Exception):
    pass


@pytest.mark.parametrize(
    ("options", "on_policy_processes", "processes"),
    [
        ({}, 0, 0),
        ({"threads": 2}, 2, 0),
        ({"threads": 3}, 2, 0),  # of 2 environments
        ({"threads": 2, "processes": 0}, 0, 0),
        ({"threads": 1, "processes": 2}, 2, 2),
    ],
)
def test_where_nothing_else_has_work_meanwhile_each_thread_steps_environments(
    monkeypatch, options, on_policy_processes, processes
):
    asked = []

    def note(plan, learner, processes, **_):
        asked.append(processes)
        raise Started

    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    for module in (on_policy, off_policy):
        monkeypatch.setattr(module, "start_actors", note)
        monkeypatch.setattr("torch.set_num_threads", lambda threads: None)
    for item in (small(), workloads.override(workloads.load("cartpole-dqn"), "training.actors", 2, "test")):
        with pytest.raises(Started):
            started(item, MAPPING, schedule=Schedule(**options))
    assert asked == [on_policy_processes, processes]


def test_existing_actors_are_used_instead_of_new_ones():
    asked = []

    def lend(plan, learner, processes):
        asked.append((len(plan.environments), processes))
        raise Started

    with pytest.raises(Started):
        on_policy_training(small(), MAPPING, schedule=Schedule(processes=2), starting=lend)
    assert asked == [(2, 2)]


def simulated(item):
    """A learner that states no simulated seconds yet."""
    learner = learner_of(item, MAPPING, np.random.SeedSequence(0))
    learner.simulated_s = 0.0
    return learner


def test_in_virtual_time_dealing_and_acting_take_the_hosts_time(monkeypatch):
    """On a clock that only dealing (3 s a minibatch), acting (5 s) and 7 s of waiting for a core move."""
    now_s, waited_s = 0.0, 0.0
    for module in (real_time, virtual_time, full_speed):
        monkeypatch.setattr(module, "perf_counter", lambda: now_s)
    monkeypatch.setattr(full_speed, "waited_s", lambda: waited_s)
    item = small()
    learner = simulated(item)
    training = on_policy_training(item, Mapping.parse("fpga-native-cpu"), platform=Links, learner=learner)
    step, minibatches, collect = learner.step, type(learner.algorithm).minibatches, training._acting.collect

    def learnt(*arguments, **options):
        learner.simulated_s += 11.0
        return step(*arguments, **options)

    def dealt(*arguments):
        nonlocal now_s
        for batch in minibatches(*arguments):
            now_s += 3.0
            yield batch

    def acted(steps):
        nonlocal now_s, waited_s
        now_s, waited_s = now_s + 12.0, waited_s + 7.0
        return collect(steps)

    learner.step = learnt
    monkeypatch.setattr(
        type(learner.algorithm), "minibatches", lambda _, *arguments: dealt(learner.algorithm, *arguments)
    )
    training._acting.collect = acted
    progress = training._advance(1)
    training.close()
    assert progress.gradient_steps == 8
    assert progress.terms_s["learner"] == pytest.approx(8 * 11)
    assert progress.terms_s["deal"] == pytest.approx(8 * 3)
    assert progress.wall_s == pytest.approx(5 + 8 * (11 + 3))


def test_in_virtual_time_the_host_steps_the_environments():
    """Processes would wait for cores that the simulation uses."""
    item, mapping = small(), Mapping.parse("fpga-native-cpu")
    schedule = Schedule(threads=1, processes=2)
    with pytest.raises(UserError, match="actor processes: found 2; allowed: 0 in virtual time"):
        on_policy_training(item, mapping, schedule=schedule, platform=Links, learner=simulated(item))
    asked = []

    def lend(plan, learner, processes):
        asked.append(processes)
        raise Started

    with pytest.raises(Started):
        on_policy_training(
            item,
            mapping,
            schedule=Schedule(threads=2),
            platform=Links,
            learner=simulated(item),
            starting=lend,
        )
    assert asked == [0]


def test_a_training_that_cannot_be_created_leaves_no_actors():
    started = []

    def start(plan, learner, processes):
        started.append(processes)
        return SimpleNamespace(close=started.clear)

    def without_links():
        raise UserError("map", "link", "cpu to fpga", "a platform with this link")

    item = small()
    with pytest.raises(UserError, match="a platform with this link"):
        on_policy_training(
            item,
            Mapping.parse("fpga-native-cpu"),
            platform=without_links,
            learner=simulated(item),
            starting=start,
        )
    assert not started
