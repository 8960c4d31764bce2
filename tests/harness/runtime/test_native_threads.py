"""C++ threads as a run: what is refused by name, what a stretch reports, and the rows of a measured run."""

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from placerl.harness import workloads
from placerl.harness.cli import training_lines
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import silent
from placerl.harness.loop.schedule import Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime import native_threads
from placerl.harness.runtime.measured_run import Extent, train
from placerl.harness.runtime.resolve import resolve
from placerl.harness.workloads.task import algorithm_of
from tests.harness.old_form import details_of
from tests.harness.runtime.trainings import started

NATIVE = Mapping.parse("native-native-cpu")


def asked(**options: Any) -> Schedule:
    return Schedule(threads_native=True, **options)


def test_what_threads_cannot_train_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    item = workloads.load("cartpole-dqn")
    algorithm = algorithm_of(item)
    monkeypatch.setattr(native_threads, "algorithm_of", lambda _: replace(algorithm, n_step=True))
    with pytest.raises(UserError, match="threads_native: found algorithm: found n-step transitions"):
        started(item, NATIVE, schedule=asked())


def test_without_actor_threads_one_thread_does_both_in_turns() -> None:
    options = asked(actors=4, processes=0)
    training = started(workloads.load("cartpole-dqn"), NATIVE, schedule=options)
    training.warm_up()
    done = training.advance(200)
    assert (done.gradient_steps, done.environment_steps) == (200, 200)


def test_a_stretch_reports_its_steps() -> None:
    options = asked(actors=2, learners=2)
    item = workloads.load("cartpole-dqn")
    training = started(item, NATIVE, schedule=options, seed=1)
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


@pytest.mark.parametrize("processes", [0, 2])
def test_batches_are_sampled_ahead_by_a_replay_manager(processes: int) -> None:
    options = asked(actors=3, processes=processes, presampled_batches=8, replay_beside=True)
    training = started(workloads.load("cartpole-dqn"), NATIVE, schedule=options)
    training.warm_up()
    stretch = training.advance(200)
    assert stretch.gradient_steps == 200
    assert training.replay.samples_drawn == training.gradient_steps
    assert stretch.terms_s["sample"] > 0  # the manager's seconds
    assert stretch.terms_s["update"] > 0


def test_each_side_alone_reports_its_steps() -> None:
    options = asked(actors=2, learners=2)
    training = started(workloads.load("cartpole-dqn"), NATIVE, schedule=options)
    training.warm_up()
    collected, learnt = training.collect(100), training.learn(20)
    assert (collected.gradient_steps, learnt.gradient_steps) == (0, 20)
    assert 100 <= collected.environment_steps < 104
    assert learnt.environment_steps == 0
    assert (collected.terms_s["learner"], learnt.terms_s["environment"]) == (0, 0)


def test_each_learner_can_sample_a_whole_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gradient step then trains on one for each of them, and they still agree."""
    taken: list[int] = []
    parallel = native_threads.ParallelTraining
    monkeypatch.setattr(
        native_threads,
        "ParallelTraining",
        lambda *parts, **options: (taken.append(options["batch_size"]), parallel(*parts, **options))[1],
    )
    for own in (False, True):
        options = asked(actors=2, processes=1, learners=2, own_batches=own)
        training = started(workloads.load("cartpole-dqn"), NATIVE, schedule=options)
        training.warm_up()
        first, second = (training.training.state_dict(learner) for learner in range(2))
        assert all(np.array_equal(first[name], second[name]) for name in first)
    assert taken == [32, 64]


def test_a_run_says_which_threads_share_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    core = min(os.sched_getaffinity(0))
    monkeypatch.setattr(native_threads, "usable_cores", lambda: [core])
    options = asked(processes=1, presampled_batches=2, replay_beside=True, pinned=True)
    rows = train(resolve(options, workloads.load("cartpole-dqn"), NATIVE), 0, Extent(steps=60), silent)
    placement = {"learners": [core], "managers": [core], "actors": [core]}
    assert all(details_of(row)["placement"] == placement for row in rows)
    said = f"Bound to cores: core {core}: learner 0, manager 0, actor 0 (shared)"
    assert said in list(training_lines.lines(rows, None))


def test_a_measured_run_has_its_rows() -> None:
    options = asked(actors=2)
    rows = train(resolve(options, workloads.load("cartpole-ddpg"), NATIVE, 32), 0, Extent(steps=60), silent)
    by_quantity = {row.quantity: row for row in rows}
    assert {"gradient_steps_per_s", "environment_steps_per_s", "episode_return"} <= set(by_quantity)
    details = details_of(by_quantity["gradient_steps_per_s"])
    assert details["gradient_steps"] == 60
    assert details["options"] == {"actors": 2, "threads_native": True}
    assert details["fusion"] == "replay"
