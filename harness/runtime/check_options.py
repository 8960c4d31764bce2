"""Checks before a training starts that the machine and the workload support its options."""

from placerl.harness.core.errors import UserError
from placerl.harness.loop.iteration import check_overlap, collected_rows
from placerl.harness.loop.schedule import STRICT, Fusion, Schedule, is_on_policy
from placerl.harness.mapping import Mapping
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.runtime import compose, memory, native_iterations, native_threads
from placerl.harness.runtime.learners.creation import check_streams
from placerl.harness.runtime.reallocation import check_learners, check_shares_gradients
from placerl.harness.workloads.task import Task

_OF_A_REPLAY = (
    "presampled_batches",
    "overlap",
    "learners",
    "reallocate",
    "replay_beside",
    "initial_priorities",
    "streams",
)
HIDING = ("deferred_insertion", "single_buffered", "streamed")
"""Schedule that say which of a loop's overheads are hidden behind other work (PRL 3.2.1, 3.3.2)."""


def check(schedule: Schedule, task: Task, mapping: Mapping, batch_size: int) -> None:
    """Check that the machine and the workload support the options, before anything starts or is stored.

    Args:
        schedule: the requested options.
        task: the task to train, with the requested number of actors.
        mapping: backend and device of learner, replay management and storage.
        batch_size: transitions per gradient step.

    Raises:
        UserError: an option is not supported; the first one is reported.
    """
    if schedule.threads_native:
        native_threads.check(schedule, task, mapping, batch_size)
        compose.check(task, mapping, schedule.delay, batch_size)
        return
    simulated = compose.is_simulated(mapping)
    check_without_mapping(schedule, task, batch_size, simulated)
    processes = schedule.processes or 0
    if is_on_policy(task):
        native_iterations.chosen_fusion(task, mapping, schedule)
    else:
        _check_fusion(schedule, task, mapping)
        compose.check_initial_priorities(task, mapping, schedule)
    check_learners(mapping, schedule.learners, processes, schedule.overlap, schedule.reallocate)
    check_streams(task, mapping, batch_size, schedule.streams)
    compose.check(task, mapping, schedule.delay, batch_size)
    _check_managed(task, mapping)
    if processes and not schedule.overlap and simulated:
        raise UserError(task.name, "actor processes", processes, "0 in virtual time without overlap")


def check_without_mapping(schedule: Schedule, task: Task, batch_size: int, simulated: bool = False) -> None:
    """Check what does not depend on the mapping's backends, so that no mapping is chosen for options that cannot run.

    Args:
        schedule: the requested options.
        task: the task to train, with the requested number of actors.
        batch_size: transitions per gradient step.
        simulated: whether the mapping names a simulated device, so that time is virtual; the composer chooses none.

    Raises:
        UserError: an option is not supported; the first one is reported.
    """
    if schedule.threads_native:  # under one mapping only
        native_threads.check(schedule, task, Mapping.parse(native_threads.MAPPING), batch_size)
        return
    cores = len(usable_cores())
    if not 1 <= schedule.threads <= cores:
        allowed = f"1 to the cores that this process may use, {cores}"
        raise UserError(task.name, "threads", schedule.threads, allowed)
    compose.check_processes(task, schedule.processes or 0)
    if schedule.envpool:
        compose.check_envpool(task)
    if schedule.native_environments:
        compose.check_native_environments(task, schedule.envpool)
    collected = 0
    if is_on_policy(task):
        _check_on_policy(schedule, task)
    else:
        compose.check_batches(task, batch_size, schedule.ahead(task))
        _check_hiding(schedule, task)
        check_overlap(task, schedule.overlap)
        collected = collected_rows(task, schedule.overlap, schedule.reallocate)
    check_shares_gradients(task, schedule)
    if schedule.streams is not None and schedule.reallocate:
        allowed = "none with re-allocation, which splits batches itself"
        raise UserError(task.name, "streams", schedule.streams, allowed)
    if schedule.learners > batch_size:
        raise UserError(task.name, "learners", schedule.learners, f"at most the batch size, {batch_size}")
    processes = schedule.actor_processes(task, simulated)
    memory.check(task, batch_size, schedule.ahead(task), processes, schedule.learners, collected)


def _check_on_policy(schedule: Schedule, task: Task) -> None:
    """Refuse options of a replay, or of running in parallel with one, for an algorithm without a replay."""
    why = "for PPO, which learns from its own latest samples"
    for name in (*_OF_A_REPLAY, *HIDING):
        if (found := getattr(schedule, name)) != getattr(STRICT, name):
            raise UserError(task.name, name, found, f"{getattr(STRICT, name)} {why}")


def _check_hiding(schedule: Schedule, task: Task) -> None:
    """Refuse an option that hides an overhead where there is nothing that it could be hidden behind."""
    for name in ("deferred_insertion", "single_buffered"):
        if getattr(schedule, name) and not schedule.overlap:
            raise UserError(task.name, name, True, "False without overlap: actors and learner take turns")


def _check_fusion(schedule: Schedule, task: Task, mapping: Mapping) -> None:
    """Refuse a fusion that the mapping does not allow, and what a mapping's parts cannot hide."""
    fusion = compose.chosen_fusion(task, mapping, schedule.ahead(task), schedule)
    if schedule.deferred_insertion and fusion is Fusion.STEP:
        raise UserError(task.name, "deferred_insertion", True, f"False with fusion = {fusion}")
    if schedule.streamed and mapping.learner.backend != "fpga":
        raise UserError(mapping, "streamed", True, "False: only a learner on the simulated FPGA has streams")


def _check_managed(task: Task, mapping: Mapping) -> None:
    """Raise UserError if a mapping names replay management for a task without it: a row would claim that it ran."""
    managed = not is_on_policy(task) and task.replay.prioritized
    if not managed and str(mapping.rmm) != "native":
        raise UserError(
            mapping, "rmm", mapping.rmm, f"native: {task.name} has no prioritised replay to manage"
        )
