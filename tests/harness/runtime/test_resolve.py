"""What a run may be asked for, and what is refused before anything starts."""

import os
import re
from types import SimpleNamespace
from typing import Any

import pytest

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import STRICT, Environments, Fusion, InitialPriorities, Loop, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.pieces import memory
from placerl.harness.runtime import mapped_parts, resolve
from placerl.harness.runtime.fusions import on_policy_fusions
from placerl.harness.workloads import Workload
from placerl.harness.workloads.custom_task import CustomTask
from placerl.harness.workloads.task import resized
from placerl.primitives.environments import unavailable_reason
from tests.harness.runtime.test_on_policy import small
from tests.harness.runtime.trainings import started

NATIVE, TORCH = Mapping.parse("native-native-cpu"), Mapping.parse("torch-native-cpu")
OPENCL = Mapping.parse("opencl-native-cpu")
CARTPOLE = workloads.load("cartpole-dqn")
CAPACITY, UPDATE_INTERVAL = CARTPOLE.replay.capacity, CARTPOLE.training.update_interval
ACTOR = InitialPriorities.ACTOR
PARALLEL = {"processes": 2, "overlap": 8, "reallocate": True}


def asked(**options: Any) -> Schedule:
    return Schedule(threads_native=True, **options)


@pytest.fixture(autouse=True)
def _free_memory(monkeypatch):
    """A machine with a tebibyte of free memory, whatever this one has."""
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**40)


def check(options, mapping=TORCH, name="cartpole-dqn"):
    return resolve.resolve(options, workloads.load(name), mapping)


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
        resolve.resolve(Schedule(initial_priorities=ACTOR), uniform, NATIVE, 32)


def test_replay_management_is_not_mapped_where_there_is_none():
    uniform = workloads.override(CARTPOLE, "replay.prioritized", False, "test")
    for item in (workloads.load("cartpole-ppo"), uniform):
        resolve.resolve(STRICT, item, TORCH)
        with pytest.raises(
            UserError, match=r"rmm: found flat; allowed: native: .* has no prioritised replay"
        ):
            resolve.resolve(STRICT, item, Mapping.parse("torch-flat-cpu"))


def test_processes_are_counted_in_the_memory(monkeypatch):
    item = workloads.load("cartpole-dqn")
    needed_bytes = memory.transitions_bytes(item, 0, collected_rows=64)
    monkeypatch.setattr(memory, "available_bytes", lambda: needed_bytes + 3 * memory.PROCESS_BYTES)
    check(Schedule(actors=64, processes=2, learners=2))
    with pytest.raises(UserError, match="actor processes: found 3; allowed: at most 2"):
        check(Schedule(actors=64, processes=3, learners=2))
    with pytest.raises(UserError, match="learners: found 5; allowed: at most 4"):
        check(Schedule(learners=5))


def test_what_the_actors_collect_between_two_insertions_is_counted_in_the_memory(monkeypatch):
    item = workloads.load("cartpole-dqn")
    row_bytes = memory.transitions_bytes(item, 0, 1) - memory.transitions_bytes(item, 0)
    free_bytes = memory.transitions_bytes(item, 0) + 100 * row_bytes
    monkeypatch.setattr(memory, "available_bytes", lambda: free_bytes)
    steps = 100 // item.training.update_interval
    check(Schedule(overlap=steps))
    with pytest.raises(UserError, match=r"transitions between two insertions: found 101; allowed: what fits"):
        check(Schedule(overlap=steps + 1))


def test_the_replay_holds_what_an_iteration_collects_unless_each_vector_step_is_inserted(short):
    item = short("cartpole-dqn", update_interval=501)
    with pytest.raises(UserError, match=r"replay\.capacity: found 500; allowed: at least 501: "):
        resolve.resolve(STRICT, item, TORCH)
    resolve._check_options(Schedule(fusion=Fusion.RESIDENT), item, 0)


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
    monkeypatch.setattr(mapped_parts, "check", lambda *asked: None)  # there may be no simulator
    simulated = Mapping.parse("native-fpga:u200-cpu")
    check(Schedule(), simulated)
    check(Schedule(processes=1, overlap=4), simulated)
    with pytest.raises(
        UserError, match="actor processes: found 1; allowed: 0 in virtual time without overlap"
    ):
        check(Schedule(processes=1), simulated)


def test_an_algorithm_without_a_replay_collects_nothing_between_two_insertions(monkeypatch):
    item = workloads.load("cartpole-ppo")
    available = {"bytes": memory.transitions_bytes(item, 0) + 1 * memory.PROCESS_BYTES}
    monkeypatch.setattr(memory, "available_bytes", lambda: available["bytes"])
    check(Schedule(processes=1), name="cartpole-ppo")
    available["bytes"] -= 1
    with pytest.raises(UserError, match="actor processes: found 1; allowed: at most 0"):
        check(Schedule(processes=1), name="cartpole-ppo")


def test_the_processes_that_ppo_starts_by_default_are_counted_in_the_memory(monkeypatch):
    item = workloads.load("cartpole-ppo")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(mapped_parts, "check", lambda *asked: None)  # there may be no simulator
    free_bytes = memory.transitions_bytes(item, 0) + 1 * memory.PROCESS_BYTES
    monkeypatch.setattr(memory, "available_bytes", lambda: free_bytes)
    with pytest.raises(UserError, match="actor processes: found 2; allowed: at most 1"):
        check(Schedule(threads=2), name="cartpole-ppo")
    check(Schedule(threads=2, processes=1), name="cartpole-ppo")
    check(Schedule(threads=2), Mapping.parse("fpga:u200-native-cpu"), "cartpole-ppo")  # in virtual time: none


def test_a_replay_holds_at_least_a_batch_and_those_that_wait(short):
    task = short("cartpole-dqn")  # 500 rows
    for batch_size, ahead in ((1, 0), (500, 0), (250, 1), (100, 4), (100, 3)):
        resolve._check_batches(resized(task, batch_size), ahead)
    for batch_size, ahead, words in (
        (0, 0, "batch_size: found 0; allowed: 1 to replay.capacity, 500"),
        (501, 0, "batch_size: found 501"),
        (251, 1, "presampled_batches: found 1; allowed: 0 to replay.capacity / batch_size - 1, 0"),
        (100, 5, "presampled_batches: found 5; allowed: 0 to replay.capacity / batch_size - 1, 4"),
        (8, -1, "presampled_batches: found -1; allowed: 0"),
    ):
        with pytest.raises(UserError) as refused:
            resolve._check_batches(resized(task, batch_size), ahead)
        assert re.search(rf"{re.escape(words)}\b(?!\.)", str(refused.value)), "whole numbers"


def test_there_are_at_most_as_many_processes_as_environments(short):
    task = short("cartpole-dqn", actors=3)
    resolve._check_processes(task, 0)
    resolve._check_processes(task, 3)
    for number in (-1, 4):
        with pytest.raises(
            UserError, match=f"actor processes: found {number}; allowed: 0 to training.actors, 3"
        ):
            resolve._check_processes(task, number)


def test_a_batch_that_fixed_point_cannot_express_is_refused_before_anything_starts(short):
    with pytest.raises(UserError, match="matmul at "):
        resolve.resolve(STRICT, short("cartpole-ddpg"), Mapping.parse("native[fixed32]-native-cpu"), 1)


@pytest.mark.parametrize(
    ("mapping", "options"),
    [("native-native-cpu", {"processes": 2, "overlap": 8}), ("torch-native-cpu", {"overlap": 8}),
     ("torch-native-cpu", {"processes": 2})],
)  # fmt: skip
def test_reallocation_that_has_nothing_to_move_is_refused(short, mapping, options):
    with pytest.raises(UserError, match=r"re-?allocat"):
        started(
            short("cartpole-dqn", actors=2),
            Mapping.parse(mapping),
            schedule=Schedule(reallocate=True, **options),
        )


@pytest.mark.parametrize(
    ("mapping", "learners", "processes", "overlap", "reallocate"),
    [
        (NATIVE, 1, 0, 0, False),
        (NATIVE, 1, 2, 8, False),
        (TORCH, 2, 0, 0, False),
        (TORCH, 5, 1, 8, False),
        (TORCH, 1, 2, 1, True),
        (TORCH, 1, 3, 8, True),
        (Mapping.parse("opencl-native-cpu"), 1, 3, 8, True),
        (Mapping.parse("fpga:u200-native-cpu"), 1, 3, 8, True),
    ],
)
def test_what_can_be_split_passes(mapping, learners, processes, overlap, reallocate):
    resolve._check_division(
        Schedule(learners=learners, overlap=overlap, reallocate=reallocate), mapping, processes
    )


@pytest.mark.parametrize(
    ("mapping", "learners", "processes", "overlap", "reallocate", "words"),
    [
        (TORCH, 0, 0, 0, False, "learners: found 0; allowed: at least 1"),
        (NATIVE, 2, 0, 0, False, "learner: found native; allowed: torch"),
        (Mapping.parse("torch:cuda-native-cpu"), 2, 0, 0, False, "learner: found torch:cuda; allowed: torch"),
        (NATIVE, 1, 2, 8, True, "learner: found native; allowed: torch, opencl, fpga"),
        (
            Mapping.parse("opencl-native-cpu"),
            2,
            0,
            0,
            False,
            "learner: found opencl; allowed: torch: parallel",
        ),
        (TORCH, 2, 2, 8, True, "learners: found 2; allowed: 1 with re-allocation"),
        (TORCH, 1, 1, 8, True, "reallocate: found 1 actor processes, overlap 8; allowed: at least 2"),
        (TORCH, 1, 2, 0, True, "reallocate: found 2 actor processes, overlap 0; allowed: at least 2"),
    ],
)
def test_what_cannot_is_refused_by_its_field(mapping, learners, processes, overlap, reallocate, words):
    with pytest.raises(UserError) as refused:
        resolve._check_division(
            Schedule(learners=learners, overlap=overlap, reallocate=reallocate), mapping, processes
        )
    assert words in str(refused.value)


@pytest.mark.parametrize(("name", "found"), [("learners", 2), ("reallocate", True)])
def test_batches_are_divided_only_where_gradients_are_shared(name, found):
    own, options = CustomTask("mine", None, None, None, None), Schedule(**{name: found})
    resolve._check_shared_gradients(Schedule(threads=2, overlap=4), own)
    resolve._check_shared_gradients(options, CARTPOLE)
    with pytest.raises(UserError, match=f"mine: {name}: found {found}; allowed: .* with a step of your own"):
        resolve._check_shared_gradients(options, own)


def check_threads(schedule: Schedule, name: str = "cartpole-dqn", mapping: Mapping = NATIVE) -> None:
    item = schedule.applied(workloads.load(name))
    resolve.resolve(schedule, item, mapping, item.training.batch_size)


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"learners": 2}, "learners: found 2; allowed: 1 with --pinned"),
        ({"overlap": 8}, "processes: found 0; allowed: at least 1 with --pinned and --overlap"),
    ],
)
def test_what_has_no_core_of_its_own_is_not_bound(options: dict[str, Any], refusal: str) -> None:
    check(Schedule(pinned=True))
    with pytest.raises(UserError, match=refusal):
        check(Schedule(pinned=True, **options))


def test_only_threads_of_cpp_sample_a_batch_for_each_learner() -> None:
    with pytest.raises(UserError, match="own_batches: found True; allowed: False without --threads-native"):
        check(Schedule(learners=2, own_batches=True))
    check_threads(asked(learners=3, processes=1, own_batches=True), "cartpole-dqn")
    with pytest.raises(UserError, match="learners: found 3; allowed: a divisor of the batch size, 32"):
        check_threads(asked(learners=3, processes=1), "cartpole-dqn")


def test_virtual_time_has_no_cores_to_bind_to() -> None:
    with pytest.raises(UserError, match="pinned: found True; allowed: False in virtual time"):
        check(Schedule(pinned=True), mapping=Mapping.parse("native-fpga-fpga"))


@pytest.mark.parametrize("name", ["cartpole-dqn", "cartpole-ddpg", "pendulum-td3", "pendulum-sac"])
def test_what_threads_can_run_passes(name: str) -> None:
    check_threads(asked(actors=5, processes=2, learners=2), name)
    check_threads(asked(actors=4, presampled_batches=50, replay_beside=True, pinned=True), name)


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
        (
            {"presampled_batches": 10**6},
            "cartpole-dqn",
            "",
            "presampled_batches: found 1000000; allowed: 0 to",
        ),
        (
            {"replay_beside": True},
            "cartpole-dqn",
            "",
            "presampled_batches: found 0; allowed: at least 1 with --replay-beside",
        ),
        (
            {"streamed": True},
            "cartpole-dqn",
            "",
            "streamed: found True; allowed: False with --threads-native",
        ),
        ({"learners": 3}, "cartpole-dqn", "", "learners: found 3; allowed: a divisor of the batch size, 32"),
        (
            {"actors": 3, "processes": 4},
            "cartpole-dqn",
            "",
            "actor processes: found 4; allowed: 0 to training",
        ),
        ({"actors": 3, "processes": -1}, "cartpole-dqn", "", "actor processes: found -1; allowed: 0 to"),
        ({}, "cartpole-ppo", "", "replay: found no prioritised replay"),
        ({}, "pong-dqn", "", "environment.id: found"),
        ({"processes": 0, "learners": 2}, "cartpole-dqn", "", "processes: found 0; allowed: at least 1"),
    ],
)
def test_what_threads_cannot_run_is_refused(
    options: dict[str, Any], name: str, mapping: str, words: str
) -> None:
    with pytest.raises(UserError) as refused:
        check_threads(asked(**options), name, Mapping.parse(mapping) if mapping else NATIVE)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("cores", "learners", "environments", "threads"),
    [
        (4, 1, 2, 2),
        (4, 1, 8, 3),
        (4, 2, 6, 2),
        (8, 1, 6, 6),
        (2, 1, 8, 1),
        (1, 1, 8, 0),
        (2, 2, 8, 1),
    ],
)
def test_actor_threads_have_a_core_each_and_as_many_environments(
    monkeypatch: pytest.MonkeyPatch, cores: int, learners: int, environments: int, threads: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    assert resolve.actor_threads(asked(learners=learners), environments) == threads
    assert resolve.actor_threads(asked(processes=7, learners=learners), environments) == 7
    managed = asked(learners=learners, replay_beside=True, presampled_batches=1)
    assert resolve.actor_threads(managed, environments) == max(
        int(learners > 1), min(environments, cores - 2 * learners)
    )
    check_threads(asked(actors=environments, learners=learners))


def test_what_cannot_be_fused_is_refused_before_anything_starts() -> None:
    def check(item: Workload, **options: Any) -> None:
        resolve.resolve(Schedule(**options), item, NATIVE)

    check(small(), fusion=Fusion.ITERATION)
    check(small(), fusion=Fusion.NONE)
    check(small(), environments=Environments.GYMNASIUM, fusion=Fusion.NONE)
    with pytest.raises(
        UserError, match="fusion: found iteration; allowed: none; iteration with native environments"
    ):
        check(small(), environments=Environments.GYMNASIUM, fusion=Fusion.ITERATION)
    with pytest.raises(UserError, match="fusion: found step; allowed: none, iteration"):
        check(small(), fusion=Fusion.STEP)
    assert on_policy_fusions(workloads.load("pong-ppo"), NATIVE, Schedule()) == (Fusion.NONE,)
    with pytest.raises(UserError, match="batch_size: found 65; allowed: 1 to actors"):
        resolve.resolve(Schedule(), small(), NATIVE, 65)


@pytest.mark.parametrize(
    ("environment", "options", "stepping"),
    [
        ({}, {}, Environments.NATIVE),
        ({}, {"environments": Environments.GYMNASIUM}, Environments.GYMNASIUM),
        ({}, {"threads_native": True}, Environments.NATIVE),
        ({"id": "LunarLander-v3", "kwargs": {"enable_wind": True}}, {}, Environments.NATIVE),
        ({"id": "LunarLander-v2"}, {}, Environments.GYMNASIUM),
        ({"kwargs": {"sutton_barto_reward": False}}, {}, Environments.GYMNASIUM),
    ],
)
def test_environments_are_native_where_there_are_such(
    environment: dict[str, Any], options: dict[str, Any], stepping: Environments
) -> None:
    table = CARTPOLE.environment.model_copy(update=environment)
    item = CARTPOLE.model_copy(update={"environment": table})
    if stepping is Environments.NATIVE and (reason := unavailable_reason(table.id)):
        pytest.skip(reason)
    assert Schedule(**options).stepping(item) is stepping


@pytest.mark.parametrize("stepping", [Environments.GYMNASIUM, Environments.ENVPOOL])
def test_cpp_threads_step_native_environments_only(stepping: Environments) -> None:
    with pytest.raises(UserError, match=f"environments: found {stepping}; allowed: native with --threads-n"):
        resolve.resolve(asked(environments=stepping), CARTPOLE, NATIVE)


def test_cpp_threads_refuse_arguments_that_native_environments_do_not_take() -> None:
    table = CARTPOLE.environment.model_copy(update={"kwargs": {"sutton_barto_reward": True}})
    with pytest.raises(UserError, match=r"environment\.kwargs: found \{'sutton_barto_reward'.*allowed: none"):
        resolve.resolve(asked(), CARTPOLE.model_copy(update={"environment": table}), NATIVE)


@pytest.mark.parametrize("name", ["cartpole-dqn", "cartpole-ppo"])
def test_a_workload_gets_the_actors_that_are_asked_for(name):
    asked_for = workloads.load(name).training.actors + 1
    found = check(Schedule(actors=asked_for), name=name)
    assert found.task.training.actors == asked_for
    assert found.workload.name == name


def test_a_task_of_ones_own_has_the_actors_of_its_settings():
    own = CustomTask("mine", None, None, None, SimpleNamespace(actors=2, batch_size=8))
    assert Schedule(actors=2).applied(own) is own
    with pytest.raises(UserError, match=r"^mine: actors: found 3; allowed: 2, as its Settings state$"):
        resolve.resolve(Schedule(actors=3), own, TORCH)


def test_parts_that_exist_are_not_looked_for_and_need_no_further_memory(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 0)
    monkeypatch.setattr(mapped_parts, "check", lambda *asked: pytest.fail("it was looked for"))
    found = resolve.resolve(Schedule(overlap=4), CARTPOLE, NATIVE, existing=Fusion.NONE)
    assert found.fusion is Fusion.NONE
    with pytest.raises(UserError, match="overlap: found"):
        resolve.resolve(Schedule(overlap=10**9), CARTPOLE, NATIVE, existing=Fusion.NONE)


def test_what_is_left_open_is_decided():
    found = check(Schedule(overlap=8, actors=2, processes=2, presampled_batches=3), NATIVE)
    assert (found.shape.batch_size, found.shape.ahead, found.processes) == (32, 3, 2)
    assert found.fusion is Fusion.REPLAY
    assert found.shape.gradient_steps >= 8
    relaxed = resolve.resolve(STRICT, CARTPOLE, NATIVE, loop=Loop.RELAXED)
    assert relaxed.schedule.replay_beside
    assert relaxed.shape.ahead == 50
    with pytest.raises(UserError, match="delay: found 1000; allowed: less than the run's 9"):
        resolve.resolve(STRICT, CARTPOLE, Mapping.parse("native[dynamic]-native-cpu"), gradient_steps=9)
