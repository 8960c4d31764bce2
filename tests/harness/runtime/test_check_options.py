"""What a run may be asked for, and what is refused before anything starts."""

import os

import pytest

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import STRICT, Fusion, InitialPriorities, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime import check_options, compose, memory

NATIVE, TORCH = Mapping.parse("native-native-cpu"), Mapping.parse("torch-native-cpu")
OPENCL = Mapping.parse("opencl-native-cpu")
CARTPOLE = workloads.load("cartpole-dqn")
CAPACITY, UPDATE_INTERVAL = CARTPOLE.replay.capacity, CARTPOLE.training.update_interval
ACTOR = InitialPriorities.ACTOR
PARALLEL = {"processes": 2, "overlap": 8, "reallocate": True}


@pytest.fixture(autouse=True)
def _free_memory(monkeypatch):
    """A machine with a tebibyte of free memory, whatever this one has."""
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**40)


def check(options, mapping=TORCH, name="cartpole-dqn"):
    item = options.applied(workloads.load(name))
    check_options.check(options, item, mapping, item.training.batch_size)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"actors": 4, "processes": 2, "overlap": 8},
        {"presampled_batches": 50},
        {"overlap": CAPACITY // UPDATE_INTERVAL},
        {"presampled_batches": 1, "replay_beside": True},
        {"learners": 2},
        {"actors": 2, **PARALLEL},
        {"fusion": Fusion.NONE},
        {"initial_priorities": InitialPriorities.ACTOR},
        {"overlap": 8, "deferred_insertion": True, "single_buffered": True},
    ],
)
def test_what_can_run_passes(options):
    check(Schedule(**options))


@pytest.mark.parametrize(
    ("options", "mapping", "words"),
    [
        ({"threads": 10_000}, TORCH, "threads: found 10000; allowed: 1 to the cores that this process may use, "),
        ({"actors": 0}, TORCH, "--actors: training.actors: found 0"),
        ({"processes": 2}, TORCH, "actor processes: found 2; allowed: 0 to training.actors, 1"),
        ({"presampled_batches": 10**6}, TORCH, "presampled_batches: found 1000000; allowed: 0 to"),
        ({"presampled_batches": 1, "fusion": Fusion.STEP}, NATIVE, "fusion: found step; allowed: none, replay"),
        ({"learners": 2}, NATIVE, "learner: found native; allowed: torch"),
        ({"learners": 33}, TORCH, "learners: found 33; allowed: at most the batch size, 32"),
        ({"learners": 2, "actors": 2, **PARALLEL}, TORCH, "learners: found 2; allowed: 1 with re-allocation"),
        ({"overlap": 10**20}, TORCH, f"overlap: found {10**20}; allowed: 0 to {CAPACITY // UPDATE_INTERVAL}"),
        ({"overlap": 10**400}, TORCH, "overlap: found 1000"),
        ({"reallocate": True}, TORCH, "reallocate: found 0 actor processes, overlap 0"),
        ({"deferred_insertion": True}, TORCH, "deferred_insertion: found True; allowed: False without overlap"),
        ({"single_buffered": True}, TORCH, "single_buffered: found True; allowed: False without overlap"),
        ({"overlap": 8, "deferred_insertion": True}, NATIVE, "allowed: False with fusion = step"),
        ({"streams": 2}, TORCH, "streams: found 2; allowed: 1: only a learner on opencl or fpga has streams"),
        ({"streams": 33}, OPENCL, "streams: found 33; allowed: 1 to the batch size, 32"),
        ({"streams": 2, "actors": 2, **PARALLEL}, OPENCL, "streams: found 2; allowed: none with re-allocation"),
        ({"streamed": True}, TORCH, "streamed: found True; allowed: False: only a learner on the simulated FPGA"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused(options, mapping, words):
    with pytest.raises(UserError) as refused:
        check(Schedule(**options), mapping)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"presampled_batches": 5}, "presampled_batches: found 5; allowed: None for PPO"),
        ({"overlap": 4}, "overlap: found 4; allowed: 0 for PPO"),
        ({"replay_beside": True}, "replay_beside: found True; allowed: False for PPO"),
        ({"learners": 2}, "learners: found 2; allowed: 1 for PPO"),
        ({"streams": 2}, "streams: found 2; allowed: None for PPO"),
        ({"initial_priorities": ACTOR}, "initial_priorities: found actor; allowed: max for PPO"),
        ({"fusion": Fusion.STEP}, "fusion: found step; allowed:"),
    ],
)
def test_an_algorithm_without_a_replay_takes_nothing_of_one(options, words):
    with pytest.raises(UserError) as refused:
        check(Schedule(**options), name="cartpole-ppo")
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("name", "mapping", "words"),
    [
        (
            "pendulum-td3",
            "native-native-cpu",
            "allowed: max with td3, whose actors compute no TD errors",
        ),
        ("cartpole-dqn", "native[fixed32]-native-cpu", "allowed: max with a learner of precision fixed32"),
    ],
)
def test_initial_priorities_that_actors_cannot_compute_are_refused(name, mapping, words):
    with pytest.raises(UserError) as refused:
        check(Schedule(initial_priorities=ACTOR), Mapping.parse(mapping), name)
    assert words in str(refused.value)


def test_initial_priorities_need_priorities():
    uniform = workloads.override(CARTPOLE, "replay.prioritized", False, "test")
    with pytest.raises(
        UserError, match="initial_priorities: found actor; allowed: max without a prioritised"
    ):
        check_options.check(Schedule(initial_priorities=ACTOR), uniform, NATIVE, 32)


def test_replay_management_is_not_mapped_where_there_is_none():
    uniform = workloads.override(CARTPOLE, "replay.prioritized", False, "test")
    for item in (workloads.load("cartpole-ppo"), uniform):
        check_options.check(STRICT, item, TORCH, item.training.batch_size)
        with pytest.raises(
            UserError, match=r"rmm: found flat; allowed: native: .* has no prioritised replay"
        ):
            check_options.check(STRICT, item, Mapping.parse("torch-flat-cpu"), item.training.batch_size)


def test_processes_are_counted_in_the_memory(monkeypatch):
    item = workloads.load("cartpole-dqn")
    needed_bytes = memory.needed_bytes(item, 32, 0, 0, collected_rows=64)
    monkeypatch.setattr(memory, "available_bytes", lambda: needed_bytes + 3 * memory.PROCESS_BYTES)
    check(Schedule(actors=64, processes=2, learners=2))
    with pytest.raises(UserError, match="actor processes: found 3; allowed: at most 2"):
        check(Schedule(actors=64, processes=3, learners=2))
    with pytest.raises(UserError, match="learners: found 5; allowed: at most 4"):
        check(Schedule(learners=5))


def test_what_the_actors_collect_between_two_insertions_is_counted_in_the_memory(monkeypatch):
    item = workloads.load("cartpole-dqn")
    row_bytes = memory.needed_bytes(item, 32, 0, 0, 1) - memory.needed_bytes(item, 32, 0, 0)
    free_bytes = memory.needed_bytes(item, 32, 0, 0) + 100 * row_bytes
    monkeypatch.setattr(memory, "available_bytes", lambda: free_bytes)
    steps = 100 // item.training.update_interval
    check(Schedule(overlap=steps))
    with pytest.raises(UserError, match=r"transitions between two insertions: found 101; allowed: what fits"):
        check(Schedule(overlap=steps + 1))


@pytest.mark.parametrize(("cores", "allowed"), [({0, 2, 5, 9}, 4), ({3}, 1)])
def test_a_process_has_a_thread_for_each_core_that_it_may_use(monkeypatch, cores, allowed):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)  # a container may have some of the machine's cores
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores)
    check(Schedule(threads=allowed))
    for threads in (0, allowed + 1):
        with pytest.raises(UserError) as refused:
            check(Schedule(threads=threads))
        words = f"threads: found {threads}; allowed: 1 to the cores that this process may use, {allowed}"
        assert str(refused.value).endswith(words)


def test_processes_in_virtual_time_work_next_to_the_learner(monkeypatch):
    monkeypatch.setattr(compose, "check", lambda *asked: None)  # builds a simulator where there is none
    simulated = Mapping.parse("native-fpga:u200-cpu")
    check(Schedule(), simulated)
    check(Schedule(processes=1, overlap=4), simulated)
    with pytest.raises(
        UserError, match="actor processes: found 1; allowed: 0 in virtual time without overlap"
    ):
        check(Schedule(processes=1), simulated)


def test_an_algorithm_without_a_replay_collects_nothing_between_two_insertions(monkeypatch):
    item = workloads.load("cartpole-ppo")
    available = {
        "bytes": memory.needed_bytes(item, item.training.batch_size, 0, 0) + 1 * memory.PROCESS_BYTES
    }
    monkeypatch.setattr(memory, "available_bytes", lambda: available["bytes"])
    check(Schedule(processes=1), name="cartpole-ppo")
    available["bytes"] -= 1
    with pytest.raises(UserError, match="actor processes: found 1; allowed: at most 0"):
        check(Schedule(processes=1), name="cartpole-ppo")


def test_the_processes_that_ppo_starts_by_default_are_counted_in_the_memory(monkeypatch):
    item = workloads.load("cartpole-ppo")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(compose, "check", lambda *asked: None)  # builds a simulator where there is none
    free_bytes = memory.needed_bytes(item, item.training.batch_size, 0, 0) + 1 * memory.PROCESS_BYTES
    monkeypatch.setattr(memory, "available_bytes", lambda: free_bytes)
    with pytest.raises(UserError, match="actor processes: found 2; allowed: at most 1"):
        check(Schedule(threads=2), name="cartpole-ppo")
    check(Schedule(threads=2, processes=1), name="cartpole-ppo")
    check(Schedule(threads=2), Mapping.parse("fpga:u200-native-cpu"), "cartpole-ppo")  # in virtual time: none
