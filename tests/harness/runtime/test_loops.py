"""The options of each loop, and what they leave of those that were asked for."""

import os
from dataclasses import replace

import pytest

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import Fusion, Schedule
from placerl.harness.mapping import Loop, Mapping
from placerl.harness.mapping.problem import problem_of
from placerl.harness.runtime.loops import under
from placerl.harness.runtime.resolve import resolve, runs_free
from placerl.harness.workloads.task import resized
from tests.harness.runtime.short_workloads import short
from tests.harness.runtime.trainings import replay_training

NATIVE, SIMULATED = Mapping.parse("native-native-cpu"), Mapping.parse("fpga-native-cpu")
CARTPOLE = workloads.load("cartpole-ddpg")  # 200,000 rows, one actor
UNIFORM = workloads.override(workloads.load("cartpole-dqn"), "replay.prioritized", False, "test")


def options(loop, mapping=NATIVE, item=CARTPOLE, size=32, **asked):
    return under(loop, Schedule(**asked), resized(item, size), mapping)


def test_in_turns_nothing_works_beside_the_learner():
    assert options(Loop.STRICT) == Schedule(fusion=Fusion.NONE, presampled_batches=0)
    assert options(Loop.FUSED) == Schedule(presampled_batches=0)


def test_the_actors_of_the_overlapped_loop_have_a_process():
    assert options(Loop.OVERLAPPED) == Schedule(presampled_batches=0, processes=1, overlap=32)


def test_the_relaxed_loop_is_that_of_map():
    assert options(Loop.RELAXED) == Schedule(
        presampled_batches=50, processes=1, overlap=32, replay_beside=True
    )


def test_threads_of_cpp_run_free_or_in_turns():
    threads = Schedule(threads_native=True, presampled_batches=0)
    assert options(Loop.FUSED, threads_native=True) == replace(threads, processes=0)
    assert options(Loop.OVERLAPPED, threads_native=True) == replace(threads, processes=1)
    relaxed = replace(threads, processes=1, presampled_batches=50, replay_beside=True)
    assert options(Loop.RELAXED, threads_native=True) == relaxed
    for loop in (Loop.FUSED, Loop.OVERLAPPED, Loop.RELAXED):
        resolve(Schedule(threads_native=True), CARTPOLE, NATIVE, 32, loop=loop)
    with pytest.raises(UserError, match="fusion: found none; allowed: None with --threads-native"):
        resolve(Schedule(threads_native=True), CARTPOLE, NATIVE, 32, loop=Loop.STRICT)


def test_the_concurrent_loop_binds_threads_of_cpp_to_the_cores(monkeypatch):
    many = Schedule(actors=16).applied(CARTPOLE)
    for cores, asked, actors in ((2, {}, 1), (8, {}, 6), (8, {"learners": 2}, 4), (56, {}, 16)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        assert options(Loop.CONCURRENT, item=many, **asked) == Schedule(
            presampled_batches=50,
            processes=actors,
            replay_beside=True,
            threads_native=True,
            pinned=True,
            **asked,
        )
        assert runs_free(CARTPOLE, NATIVE)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    with pytest.raises(UserError, match="--loop: found concurrent; allowed: fused on one core"):
        options(Loop.CONCURRENT)
    assert not runs_free(CARTPOLE, NATIVE)


def test_only_what_is_native_runs_free():
    for item, mapping in ((CARTPOLE, "torch-native-cpu"), (UNIFORM, "native-native-cpu")):
        assert not runs_free(item, Mapping.parse(mapping))
    assert not runs_free(workloads.load("pong-dqn"), NATIVE)
    assert not runs_free(workloads.load("cartpole-ppo"), NATIVE)


def test_what_is_asked_for_is_kept():
    asked = {"presampled_batches": 7, "processes": 0, "overlap": 4, "threads": 2}
    assert options(Loop.RELAXED, **asked) == Schedule(replay_beside=True, **asked)


@pytest.mark.parametrize(("size", "ahead"), [(32, 50), (3921, 50), (3922, 49), (16384, 11), (120_000, 0)])
def test_no_more_batches_wait_than_the_replay_holds(size, ahead):
    """100,000 rows hold 51 batches of 1,960."""
    assert options(Loop.RELAXED, size=size).presampled_batches == ahead


def test_there_are_as_many_processes_as_cores_are_free(monkeypatch):
    many = Schedule(actors=16).applied(CARTPOLE)
    for cores, relaxed, overlapped in ((1, 1, 1), (2, 1, 1), (8, 6, 7), (56, 16, 16)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        assert options(Loop.RELAXED, item=many).processes == relaxed
        assert options(Loop.OVERLAPPED, item=many).processes == overlapped


def test_cores_that_learners_keep_busy_have_no_actors(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    many = Schedule(actors=16).applied(CARTPOLE)
    for asked, relaxed, overlapped in (
        ({"threads": 3}, 4, 5),
        ({"learners": 4}, 3, 4),
        ({"threads": 9}, 1, 1),
    ):
        assert options(Loop.RELAXED, item=many, **asked).processes == relaxed
        assert options(Loop.OVERLAPPED, item=many, **asked).processes == overlapped


@pytest.mark.parametrize("mapping", [NATIVE, SIMULATED])
@pytest.mark.parametrize(
    ("name", "size", "ahead"), [("pong-dqn", 32, 50), ("pong-dqn", 256, 17), ("hopper-ddpg", 256, 50)]
)
def test_a_loop_is_the_one_that_is_predicted(name, size, ahead, mapping):
    """Of Pong's frames, a byte a number, 2^28 bytes hold 18 batches of 256."""
    item = Schedule(actors=3).applied(workloads.load(name))
    found, problem = options(Loop.RELAXED, mapping, item, size), problem_of(item, size)
    assert found.presampled_batches == problem.ahead == ahead
    rounds = problem.overlapped_rounds(mapping is SIMULATED)
    assert found.overlap == options(Loop.OVERLAPPED, mapping, item, size).overlap
    assert found.overlap == rounds * problem.round_gradient_steps
    assert found.overlap == (9 if mapping is SIMULATED else 33)


def test_in_virtual_time_there_are_no_processes():
    assert options(Loop.RELAXED, SIMULATED).processes is None


@pytest.mark.parametrize(
    ("loop", "asked", "words"),
    [
        (Loop.STRICT, {"fusion": Fusion.STEP}, "fusion: found step; allowed: none in the strict loop"),
        (Loop.FUSED, {"overlap": 4}, "overlap: found 4; allowed: 0 in the fused loop"),
        (
            Loop.FUSED,
            {"threads_native": True, "processes": 2},
            "processes: found 2; allowed: 0 in the fused loop",
        ),
        (Loop.OVERLAPPED, {"presampled_batches": 3}, "presampled_batches: found 3; allowed: 0"),
        (Loop.OVERLAPPED, {"replay_beside": True}, "replay_beside: found True; allowed: nothing"),
        (
            Loop.OVERLAPPED,
            {"threads_native": True, "processes": 0},
            "processes: found 0; allowed: at least 1 in the overlapped loop",
        ),
        (Loop.CONCURRENT, {"processes": 0}, "processes: found 0; allowed: at least 1 in the concurrent loop"),
    ],
)
def test_an_option_that_contradicts_the_loop_is_refused(loop, asked, words):
    with pytest.raises(UserError, match=words):
        options(loop, **asked)


def test_the_resident_loop_samples_ahead_only_on_request():
    eager = workloads.override(CARTPOLE, "training.presampled_batches", 8, "test")
    resident = Schedule(fusion=Fusion.RESIDENT, presampled_batches=0)
    assert options(Loop.RESIDENT) == options(Loop.RESIDENT, item=eager, presampled_batches=0) == resident
    ahead = options(Loop.RESIDENT, item=eager, presampled_batches=8)
    assert ahead == replace(resident, presampled_batches=8)
    with pytest.raises(UserError, match="presampled_batches: found 8; allowed: 0 in the resident loop"):
        options(Loop.RESIDENT, item=eager)


def test_an_algorithm_without_a_replay_has_one_loop():
    ppo = workloads.load("cartpole-ppo")
    assert options(Loop.FUSED, item=ppo) == Schedule()
    with pytest.raises(UserError, match="--loop: found relaxed; allowed: fused"):
        options(Loop.RELAXED, item=ppo)


def test_every_loop_trains():
    item = short("cartpole-ddpg", capacity=400)
    for loop in set(Loop) - {Loop.RESIDENT, Loop.CONCURRENT}:  # which have classes of their own
        training = replay_training(item, NATIVE, schedule=under(loop, Schedule(), item, NATIVE))
        training.advance(64)
        assert training.gradient_steps >= 50 + 64
        training.close()
