"""Decides how a task is trained under a mapping: every option is checked here, once, before anything starts.

    resolved = resolve(Schedule(overlap=8), workloads.load("cartpole-dqn"), Mapping.parse("native-native-cpu"))
    training = start(resolved)  # of `harness.runtime.measured_run`

The classes of trainings take a `Resolved` and check nothing themselves.
"""

from dataclasses import dataclass

from placerl.harness.core.errors import OptionName, UserError
from placerl.harness.environments import env_pool, native_pool
from placerl.harness.loop.iteration import Iteration, check_insertion, check_overlap, collected_rows
from placerl.harness.loop.schedule import (
    STRICT,
    Environments,
    Fusion,
    InitialPriorities,
    Loop,
    Schedule,
    is_on_policy,
)
from placerl.harness.loop.training_loop import Shape
from placerl.harness.mapping import Mapping
from placerl.harness.mapping.target import NATIVE, NATIVE_MAPPING
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.pieces import memory
from placerl.harness.runtime import fusions, loops, mapped_parts
from placerl.harness.runtime.learners.gradient_graphs import BACKENDS
from placerl.harness.runtime.simulated_parts import is_simulated
from placerl.harness.workloads import Workload
from placerl.harness.workloads.custom_task import CustomTask
from placerl.harness.workloads.task import Task, algorithm_of, resized
from placerl.primitives.environments import factory as native_environments
from placerl.primitives.quantization.precision import FLOAT_32
from placerl.primitives.training import exploration

OF_A_REPLAY = (
    "presampled_batches",
    "overlap",
    "learners",
    "reallocate",
    "replay_beside",
    "initial_priorities",
    "streams",
    "pinned",
    "own_batches",
)
"""Options that an algorithm without a replay does not have."""
HIDING = ("deferred_insertion", "single_buffered", "streamed")
"""Options that say which of a loop's overheads are hidden behind other work (PRL 3.2.1, 3.3.2)."""
OF_THREADS = (
    "actors",
    "processes",
    "environments",
    "learners",
    "presampled_batches",
    "replay_beside",
    "own_batches",
    "pinned",
    "threads_native",
)
"""Options that may differ from their defaults where C++ threads train."""

_WITH_THREADS = (" with ", OptionName("threads_native"))


@dataclass(frozen=True)
class Resolved:
    """How a task is trained under a mapping, with all that options leave open decided; `resolve` returns it.

    Attributes:
        task: the task, with the requested number of actors and batch size.
        mapping: backend and device of learner, replay management and storage.
        schedule: the requested options, and what a requested loop adds to them.
        fusion: which calls are joined into one native call.
        shape: the steps between two insertions into the replay; without a replay, no batch is sampled ahead.
        processes: processes that step the environments, 0 for the learner's own; of C++ threads, the actors' threads.
    """

    task: Task
    mapping: Mapping
    schedule: Schedule
    fusion: Fusion
    shape: Shape
    processes: int

    @property
    def workload(self) -> Workload:
        """The task as a workload, which every task is but a user's own."""
        assert isinstance(self.task, Workload)
        return self.task


def resolve(
    schedule: Schedule,
    task: Task,
    mapping: Mapping,
    batch_size: int | None = None,
    *,
    loop: Loop | None = None,
    gradient_steps: int | None = None,
    existing: Fusion | None = None,
) -> Resolved:
    """Check that the machine and the task support a mapping and its options, and decide what these leave open.

    Args:
        schedule: the requested options.
        task: the task to train.
        batch_size: transitions per gradient step; None: the task's own.
        loop: the loop in which the mapping is run, which determines some options (`loops.under`); None: the options'.
        gradient_steps: gradient steps of the training after its warm-up, if they are limited.
        existing: the fusion of parts that exist already. They are used instead of those that the mapping names, so that
            neither these nor their memory are checked.

    Raises:
        UserError: an option is not supported; the first one is reported.
    """
    task = schedule.applied(task)
    if batch_size is not None:
        task = resized(task, batch_size)
    if loop is not None:
        if isinstance(task, CustomTask):
            raise UserError(task.name, "loop", loop, "none with a task of your own, which states its options")
        schedule = loops.under(loop, schedule, task, mapping)
    if schedule.threads_native:
        _check_threads(schedule, task, mapping)
        mapped_parts.check(task, mapping, schedule.delay)
        fusion, processes = Fusion.REPLAY, actor_threads(schedule, task.training.actors)
    else:
        simulated = is_simulated(mapping)
        processes = schedule.actor_processes(task, simulated)
        _check_options(schedule, task, processes, counted=existing is None)
        fusion = fusions.chosen_fusion(task, mapping, schedule) if existing is None else existing
        if simulated:
            _check_virtual_time(schedule, task, mapping, processes)
        _check_mapped(schedule, task, mapping, fusion, processes)
        if existing is None:
            mapped_parts.check(task, mapping, schedule.delay)
            _check_managed(task, mapping)
    if gradient_steps is not None:
        mapped_parts.check_delay(mapping, schedule.delay, gradient_steps)
    return Resolved(task, mapping, schedule, fusion, _shape(schedule, task), processes)


def _shape(schedule: Schedule, task: Task) -> Shape:
    iteration = Iteration.of(task.training, schedule.overlap)
    return Shape(
        iteration.vector_steps,
        iteration.gradient_steps,
        task.training.batch_size,
        overlapped=schedule.overlap > 0,
        ahead=0 if is_on_policy(task) else schedule.ahead(task),
        deferred=schedule.deferred_insertion,
        one_buffer=schedule.single_buffered,
    )


def check_unmapped(schedule: Schedule, task: Task) -> None:
    """Check what does not depend on the mapping, so that no mapping is chosen for options that cannot run.

    Args:
        schedule: the requested options.
        task: the task to train.

    Raises:
        UserError: an option is not supported; the first one is reported.
    """
    task = schedule.applied(task)
    if schedule.threads_native:  # under one mapping only
        _check_threads(schedule, task, Mapping.parse(NATIVE_MAPPING))
    else:
        _check_options(schedule, task, schedule.actor_processes(task))


def _check_virtual_time(schedule: Schedule, task: Task, mapping: Mapping, processes: int) -> None:
    """Refuse what a training on a simulated device cannot have: processes that step beside nothing, and own cores."""
    if schedule.pinned:
        raise UserError(mapping, "pinned", True, "False in virtual time")
    if processes and not schedule.overlap:
        raise UserError(task.name, "actor processes", processes, "0 in virtual time without overlap")


def _check_mapped(schedule: Schedule, task: Task, mapping: Mapping, fusion: Fusion, processes: int) -> None:
    """Check what depends on the mapping's backends, but not on whether they are here."""
    if not is_on_policy(task):
        _check_hidden(schedule, task, mapping, fusion)
        _check_initial_priorities(schedule, task, mapping)
    _check_division(schedule, mapping, processes)
    mapped_parts.check_streams(task, mapping, schedule.streams)


def _check_options(schedule: Schedule, task: Task, processes: int, *, counted: bool = True) -> None:
    """Check what does not depend on the mapping's backends; `counted`: the memory of the parts, too."""
    if schedule.own_batches:
        allowed_with = ("False without ", OptionName("threads_native"))
        raise UserError(task.name, "own_batches", True, allowed_with)
    cores = len(usable_cores())
    if not 1 <= schedule.threads <= cores:
        allowed = f"1 to the cores that this process may use, {cores}"
        raise UserError(task.name, "threads", schedule.threads, allowed)
    _check_processes(task, schedule.processes or 0)
    check_environments(schedule, task)
    collected = 0
    if is_on_policy(task):
        _check_on_policy(schedule, task)
    else:
        _check_batches(task, schedule.ahead(task))
        for name in ("deferred_insertion", "single_buffered"):
            if getattr(schedule, name) and not schedule.overlap:
                raise UserError(task.name, name, True, "False without overlap: actors and learner take turns")
        if schedule.fusion is not Fusion.RESIDENT:  # which inserts after each vector step
            check_insertion(task)
        check_overlap(task, schedule.overlap)
        collected = collected_rows(task, schedule.overlap, schedule.reallocate)
    if schedule.pinned:
        _check_pinned(schedule, task, processes)
    _check_shared_gradients(schedule, task)
    if schedule.streams is not None and schedule.reallocate:
        allowed = "none with re-allocation, which splits batches itself"
        raise UserError(task.name, "streams", schedule.streams, allowed)
    if schedule.learners > (batch_size := task.training.batch_size):
        raise UserError(task.name, "learners", schedule.learners, f"at most the batch size, {batch_size}")
    if counted:
        memory.check_run(task, schedule.ahead(task), processes, schedule.learners, collected)


def _check_pinned(schedule: Schedule, task: Task, processes: int) -> None:
    """Refuse to bind what has several threads, moves between cores, or shares the interpreter with the learner."""
    pinned = (" with ", OptionName("pinned"))
    for name in ("threads", "learners", "reallocate"):
        if (found := getattr(schedule, name)) != (only := getattr(STRICT, name)):
            raise UserError(task.name, name, found, (only, *pinned))
    if schedule.overlap and not processes:
        raise UserError(
            task.name, "processes", processes, ("at least 1", *pinned, " and ", OptionName("overlap"))
        )


def _check_processes(task: Task, processes: int) -> None:
    """Refuse more processes than environments."""
    if not 0 <= processes <= task.training.actors:
        allowed = f"0 to training.actors, {task.training.actors}"
        raise UserError(task.name, "actor processes", processes, allowed)


def check_environments(schedule: Schedule, task: Task) -> None:
    """Refuse EnvPool and native environments where they are not installed or lack the task's environment."""
    if schedule.environments in (None, Environments.GYMNASIUM):
        return
    if schedule.environments is Environments.DEVICE:
        if schedule.fusion is not Fusion.RESIDENT:
            raise UserError(
                task.name, "environments", schedule.environments, "others without --loop resident"
            )
        return
    if isinstance(task, CustomTask):
        allowed = f"{Environments.GYMNASIUM} with an environment of your own"
        raise UserError(task.name, "environments", schedule.environments, allowed)
    pool = native_pool if schedule.environments is Environments.NATIVE else env_pool
    pool.check(task.environment, task.name)


def _check_on_policy(schedule: Schedule, task: Task) -> None:
    """Refuse options of a replay, or of running in parallel with one, and minibatches larger than an iteration."""
    why = "for PPO, which learns from its own latest samples"
    for name in (*OF_A_REPLAY, *HIDING):
        if (found := getattr(schedule, name)) != getattr(STRICT, name):
            raise UserError(task.name, name, found, f"{getattr(STRICT, name)} {why}")
    assert isinstance(task, Workload)
    samples = task.algorithm.hyperparameters["trajectory_length"] * task.training.actors
    if (batch_size := task.training.batch_size) > samples:
        raise UserError(task.name, "batch_size", batch_size, f"1 to actors * trajectory_length, {samples}")


def _check_batches(task: Task, ahead: int) -> None:
    """Refuse a storage that is too small for a batch and the batches that wait for their gradient step."""
    capacity, batch_size = task.replay.capacity, task.training.batch_size
    needed = batch_size * (ahead + 1)
    if ahead < 0 or (ahead and needed > capacity):
        allowed = f"0 to replay.capacity / batch_size - 1, {capacity // batch_size - 1}"
        raise UserError(task.name, "presampled_batches", ahead, allowed)
    if not 1 <= batch_size <= capacity:
        raise UserError(task.name, "batch_size", batch_size, f"1 to replay.capacity, {capacity}")


def _check_shared_gradients(schedule: Schedule, task: Task) -> None:
    """Refuse to divide batches among processes or threads for an algorithm without gradients to share.

    A user's own step computes its gradients and its new state by itself, so that each part would learn alone.
    """
    if not isinstance(task, CustomTask):
        return
    for name in ("learners", "reallocate"):
        if (found := getattr(schedule, name)) != (only := getattr(STRICT, name)):
            allowed = f"{only} with a step of your own, which has no gradients to share"
            raise UserError(task.name, name, found, allowed)


def _check_hidden(schedule: Schedule, task: Task, mapping: Mapping, fusion: Fusion) -> None:
    """Refuse to hide an overhead that the fused calls or the mapping's learner cannot hide."""
    if schedule.deferred_insertion and fusion is Fusion.STEP:
        raise UserError(task.name, "deferred_insertion", True, f"False with fusion = {fusion}")
    if schedule.streamed and mapping.learner.backend != "fpga":
        raise UserError(mapping, "streamed", True, "False: only a learner on the simulated FPGA has streams")


def _check_initial_priorities(schedule: Schedule, task: Task, mapping: Mapping) -> None:
    """Refuse actors that compute initial priorities where the replay, the algorithm or the learner does not allow it.

    Actors of a fixed-point learner compute actions only.
    """
    if schedule.initial_priorities is InitialPriorities.MAX:
        return
    algorithm, source, only = algorithm_of(task), task.name, InitialPriorities.MAX
    if not task.replay.prioritized:
        allowed = f"{only} without a prioritised replay"
    elif not algorithm.actors_evaluate:
        allowed = f"{only} with {algorithm.name}, whose actors compute no TD errors"
    elif mapping.learner.precision != FLOAT_32:
        source, allowed = str(mapping), f"{only} with a learner of precision {mapping.learner.precision}"
    else:
        return
    raise UserError(source, "initial_priorities", InitialPriorities.ACTOR, allowed)


def _check_division(schedule: Schedule, mapping: Mapping, processes: int) -> None:
    """Refuse to divide a learner among processes or threads where it cannot be, or where there is no actor to move."""
    learners, reallocate, target = schedule.learners, schedule.reallocate, mapping.learner
    if learners < 1:
        raise UserError(mapping, "learners", learners, "at least 1")
    if learners > 1 and str(target) != "torch":
        raise UserError(mapping, "learner", target, "torch: parallel learners split its batches")
    if not reallocate:
        return
    if str(target) != "torch" and (target.backend not in BACKENDS or target.precision != FLOAT_32):
        allowed = f"torch, {', '.join(BACKENDS)}: re-allocation splits their batches"
        raise UserError(mapping, "learner", target, allowed)
    if learners > 1:
        raise UserError(mapping, "learners", learners, "1 with re-allocation, which splits batches itself")
    if processes < 2 or not schedule.overlap:
        found = f"{processes} actor processes, overlap {schedule.overlap}"
        raise UserError(mapping, "reallocate", found, "at least 2 actor processes, and an overlap")


def _check_managed(task: Task, mapping: Mapping) -> None:
    """Refuse replay management for a task without it: a row would claim that it ran."""
    managed = not is_on_policy(task) and task.replay.prioritized
    if not managed and mapping.rmm != NATIVE:
        allowed = f"native: {task.name} has no prioritised replay to manage"
        raise UserError(mapping, "rmm", mapping.rmm, allowed)


def actor_threads(schedule: Schedule, environments: int) -> int:
    """Return the number of actor threads; with 0, the learner's thread steps the environments itself, in turns.

    It is the requested number; else one for each core that no learner or replay manager needs, at most one for each
    environment. Several learners have at least one actor thread.

    Args:
        schedule: `processes` is the requested number of threads, if any, `learners` that of the learners, and with
            `replay_beside` each of these has a replay manager.
        environments: number of environments.
    """
    if schedule.processes is not None:
        return schedule.processes
    free = len(usable_cores()) - schedule.learners * (1 + schedule.replay_beside)
    return max(int(schedule.learners > 1), min(environments, free))


def _check_threads(schedule: Schedule, task: Task, mapping: Mapping) -> None:
    """Refuse what C++ threads cannot train."""
    if str(mapping) != NATIVE_MAPPING:
        raise UserError(task.name, "mapping", mapping, (NATIVE_MAPPING, *_WITH_THREADS))
    for name, found in schedule.given().items():
        if name not in OF_THREADS:
            raise UserError(task.name, name, found, (getattr(STRICT, name), *_WITH_THREADS))
    if (stepping := schedule.environments) not in (None, Environments.NATIVE):
        raise UserError(task.name, "environments", stepping, (Environments.NATIVE, *_WITH_THREADS))
    if is_on_policy(task) or not task.replay.prioritized:
        found = "no prioritised replay"
        raise UserError(task.name, "replay", found, "a prioritised one, which the threads share")
    ahead = schedule.ahead(task)
    _check_batches(task, ahead)
    if schedule.replay_beside and not ahead:
        allowed = (
            "at least 1 with ",
            OptionName("replay_beside"),
            ": the manager would work ahead of nothing",
        )
        raise UserError(task.name, "presampled_batches", ahead, allowed)
    learners, environments, batch_size = schedule.learners, task.training.actors, task.training.batch_size
    if not 1 <= learners <= batch_size or (batch_size % learners and not schedule.own_batches):
        raise UserError(task.name, "learners", learners, f"a divisor of the batch size, {batch_size}")
    threads = actor_threads(schedule, environments)
    if threads == 0 and learners > 1:
        raise UserError(task.name, "processes", threads, f"at least 1 with {learners} learners")
    _check_processes(task, threads)
    memory.check_run(task, ahead=ahead, processes=0)
    native = (", ".join(native_environments.ids()), *_WITH_THREADS)
    if isinstance(task, CustomTask):
        raise UserError(task.name, "environment", "an environment of your own", native)
    name = task.environment.id
    if name not in native_environments.ids():
        raise UserError(task.name, "environment.id", name, native)
    if reason := native_environments.unavailable_reason(name):
        raise UserError(task.name, "environment.id", name, f"what can be created here: {reason}")
    if reason := native_environments.refused_argument(name, kwargs := task.environment.kwargs):
        raise UserError(
            task.name, "environment.kwargs", kwargs, (f"native arguments ({reason})", *_WITH_THREADS)
        )


def runs_free(item: Workload, mapping: Mapping, batch_size: int | None = None) -> bool:
    """Return whether a mapping can run in the concurrent loop, on the cores that this process may use.

    Args:
        batch_size: transitions per gradient step; None: the workload's own.
    """
    if str(mapping) != NATIVE_MAPPING or exploration.refusal(algorithm_of(item)):
        return False
    try:
        resolve(STRICT, item, mapping, batch_size, loop=Loop.CONCURRENT)
    except UserError:
        return False
    return True
