"""C++ threads as a run: what is refused by name, what a stretch reports, and the rows of a measured run."""

from dataclasses import replace
from typing import Any

import pytest

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import silent
from placerl.harness.loop.schedule import Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime import check_options, native_threads
from placerl.harness.runtime.measured_run import Extent, train
from placerl.harness.runtime.native_threads import ThreadedTraining, actor_threads
from placerl.harness.workloads.task import algorithm_of

NATIVE = Mapping.parse("native-native-cpu")


def asked(**options: Any) -> Schedule:
    return Schedule(threads_native=True, **options)


def check(schedule: Schedule, name: str = "cartpole-dqn", mapping: Mapping = NATIVE) -> None:
    item = schedule.applied(workloads.load(name))
    check_options.check(schedule, item, mapping, item.training.batch_size)


@pytest.mark.parametrize("name", ["cartpole-dqn", "cartpole-ddpg", "pendulum-td3", "pendulum-sac"])
def test_what_can_run_passes(name: str) -> None:
    check(asked(actors=4, processes=2, learners=2), name)


@pytest.mark.parametrize(
    ("options", "name", "mapping", "words"),
    [
        (
            {},
            "cartpole-dqn",
            "torch-native-cpu",
            "mapping: found torch-native-cpu; allowed: native-native-cpu",
        ),
        ({"overlap": 4}, "cartpole-dqn", "", "overlap: found 4; allowed: 0 with --threads-native"),
        ({"threads": 2}, "cartpole-dqn", "", "threads: found 2; allowed: 1 with --threads-native"),
        ({"presampled_batches": 5}, "cartpole-dqn", "", "presampled_batches: found 5; allowed: 0 with --thr"),
        (
            {"streamed": True},
            "cartpole-dqn",
            "",
            "streamed: found True; allowed: False with --threads-native",
        ),
        ({"learners": 3}, "cartpole-dqn", "", "learners: found 3; allowed: a divisor of the batch size, 32"),
        ({"actors": 3, "processes": 2}, "cartpole-dqn", "", "processes: found 2; allowed: a divisor of"),
        ({"actors": 3, "processes": -1}, "cartpole-dqn", "", "processes: found -1; allowed: a divisor of"),
        ({}, "cartpole-ppo", "", "replay: found no prioritised replay"),
        ({}, "pong-dqn", "", "environment.id: found"),
        ({"processes": 0, "learners": 2}, "cartpole-dqn", "", "processes: found 0; allowed: at least 1"),
    ],
)
def test_what_cannot_run_is_refused(options: dict[str, Any], name: str, mapping: str, words: str) -> None:
    with pytest.raises(UserError) as refused:
        check(asked(**options), name, Mapping.parse(mapping) if mapping else NATIVE)
    assert words in str(refused.value)


def test_batches_that_a_workload_samples_ahead_are_refused_unless_asked_otherwise() -> None:
    item = workloads.override(workloads.load("cartpole-dqn"), "training.presampled_batches", 5, "test")
    with pytest.raises(UserError, match="presampled_batches: found 5; allowed: 0 with --threads-native"):
        check_options.check(asked(), item, NATIVE, 32)
    check_options.check(asked(presampled_batches=0), item, NATIVE, 32)


def test_what_threads_cannot_train_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    item = workloads.load("cartpole-dqn")
    algorithm = algorithm_of(item)
    monkeypatch.setattr(native_threads, "algorithm_of", lambda _: replace(algorithm, n_step=True))
    with pytest.raises(UserError, match="threads_native: found algorithm: found pixels, float64 or n-step"):
        ThreadedTraining(item, NATIVE)


@pytest.mark.parametrize(
    ("cores", "learners", "environments", "threads"),
    [
        (4, 1, 3, 3),
        (4, 1, 8, 2),
        (4, 2, 6, 2),
        (8, 1, 6, 6),
        (4, 1, 5, 1),
        (2, 1, 8, 1),
        (1, 1, 8, 0),
        (2, 2, 8, 1),
    ],
)
def test_actor_threads_have_a_core_each_and_as_many_environments(
    monkeypatch: pytest.MonkeyPatch, cores: int, learners: int, environments: int, threads: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    assert actor_threads(asked(learners=learners), environments) == threads
    assert actor_threads(asked(processes=7, learners=learners), environments) == 7
    check(asked(actors=environments, learners=learners))


def test_without_actor_threads_one_thread_does_both_in_turns() -> None:
    options = asked(actors=4, processes=0)
    training = ThreadedTraining(options.applied(workloads.load("cartpole-dqn")), NATIVE, schedule=options)
    training.warm_up()
    done = training.advance(200)
    assert (done.gradient_steps, done.environment_steps) == (200, 200)


def test_a_stretch_reports_its_steps() -> None:
    options = asked(actors=2, learners=2)
    item = options.applied(workloads.load("cartpole-dqn"))
    training = ThreadedTraining(item, NATIVE, schedule=options, seed=1)
    warm = training.warm_up()
    assert warm.gradient_steps == 50
    assert warm.environment_steps >= item.training.learning_starts + 50
    stretch = training.advance(200)
    assert stretch.gradient_steps == 200
    assert training.gradient_steps == 250
    assert 0 < stretch.environment_steps <= 200 + native_threads.LEAD + 4
    assert stretch.wall_s > 0
    assert warm.episodes[0].episode_return >= 1
    assert training.environment_steps == warm.environment_steps + stretch.environment_steps
    training.close()


def test_each_side_alone_reports_its_steps() -> None:
    options = asked(actors=2, learners=2)
    training = ThreadedTraining(options.applied(workloads.load("cartpole-dqn")), NATIVE, schedule=options)
    training.warm_up()
    collected, learnt = training.collect(100), training.learn(20)
    assert (collected.gradient_steps, learnt.gradient_steps) == (0, 20)
    assert 100 <= collected.environment_steps < 104
    assert learnt.environment_steps == 0
    assert (collected.terms_s["learner"], learnt.terms_s["environment"]) == (0, 0)


def test_a_measured_run_has_its_rows() -> None:
    options = asked(actors=2)
    item = options.applied(workloads.load("cartpole-ddpg"))
    rows = train(item, NATIVE, 32, 0, Extent(steps=60), silent, options)
    by_quantity = {row.quantity: row for row in rows}
    assert {"gradient_steps_per_s", "environment_steps_per_s", "episode_return"} <= set(by_quantity)
    details = by_quantity["gradient_steps_per_s"].details
    assert details["gradient_steps"] == 60
    assert details["options"] == {"actors": 2, "threads_native": True}
    assert details["fusion"] == "replay"
