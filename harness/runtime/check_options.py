"""Checks before a training starts that the machine and the workload support its options."""

from placerl.harness.core.errors import UserError
from placerl.harness.mapping import Mapping
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.runtime import compose, memory, native_iterations, native_threads
from placerl.harness.runtime.iteration import check_overlap, collected_rows
from placerl.harness.runtime.learners.creation import check_streams
from placerl.harness.runtime.options import STRICT, Fusion, Options, is_on_policy
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
"""Options that say which of a loop's overheads are hidden behind other work (PRL 3.2.1, 3.3.2)."""


def check(options: Options, task: Task, mapping: Mapping, batch_size: int) -> None:
    """Check that the machine and the workload support the options, before anything starts or is stored.

    Args:
        options: the requested options.
        task: the task to train, with the requested number of actors.
        mapping: backend and device of learner, replay management and storage.
        batch_size: transitions per gradient step.

    Raises:
        UserError: an option is not supported; the first one is reported.
    """
    if options.threads_native:
        native_threads.check(options, task, mapping, batch_size)
        compose.check(task, mapping, options.delay, batch_size)
        return
    simulated = compose.is_simulated(mapping)
    check_without_mapping(options, task, batch_size, simulated)
    processes = options.processes or 0
    if is_on_policy(task):
        native_iterations.chosen_fusion(task, mapping, options)
    else:
        _check_fusion(options, task, mapping)
        compose.check_initial_priorities(task, mapping, options)
    check_learners(mapping, options.learners, processes, options.overlap, options.reallocate)
    check_streams(task, mapping, batch_size, options.streams)
    compose.check(task, mapping, options.delay, batch_size)
    _check_managed(task, mapping)
    if processes and not options.overlap and simulated:
        raise UserError(task.name, "actor processes", processes, "0 in virtual time without overlap")


def check_without_mapping(options: Options, task: Task, batch_size: int, simulated: bool = False) -> None:
    """Check what does not depend on the mapping's backends, so that no mapping is chosen for options that cannot run.

    Args:
        options: the requested options.
        task: the task to train, with the requested number of actors.
        batch_size: transitions per gradient step.
        simulated: whether the mapping names a simulated device, so that time is virtual; the composer chooses none.

    Raises:
        UserError: an option is not supported; the first one is reported.
    """
    if options.threads_native:  # under one mapping only
        native_threads.check(options, task, Mapping.parse(native_threads.MAPPING), batch_size)
        return
    cores = len(usable_cores())
    if not 1 <= options.threads <= cores:
        allowed = f"1 to the cores that this process may use, {cores}"
        raise UserError(task.name, "threads", options.threads, allowed)
    compose.check_processes(task, options.processes or 0)
    if options.envpool:
        compose.check_envpool(task)
    if options.native_environments:
        compose.check_native_environments(task, options.envpool)
    collected = 0
    if is_on_policy(task):
        _check_on_policy(options, task)
    else:
        compose.check_batches(task, batch_size, options.ahead(task))
        _check_hiding(options, task)
        check_overlap(task, options.overlap)
        collected = collected_rows(task, options.overlap, options.reallocate)
    check_shares_gradients(task, options)
    if options.streams is not None and options.reallocate:
        allowed = "none with re-allocation, which splits batches itself"
        raise UserError(task.name, "streams", options.streams, allowed)
    if options.learners > batch_size:
        raise UserError(task.name, "learners", options.learners, f"at most the batch size, {batch_size}")
    processes = options.actor_processes(task, simulated)
    memory.check(task, batch_size, options.ahead(task), processes, options.learners, collected)


def _check_on_policy(options: Options, task: Task) -> None:
    """Refuse options of a replay, or of running in parallel with one, for an algorithm without a replay."""
    why = "for PPO, which learns from its own latest samples"
    for name in (*_OF_A_REPLAY, *HIDING):
        if (found := getattr(options, name)) != getattr(STRICT, name):
            raise UserError(task.name, name, found, f"{getattr(STRICT, name)} {why}")


def _check_hiding(options: Options, task: Task) -> None:
    """Refuse an option that hides an overhead where there is nothing that it could be hidden behind."""
    for name in ("deferred_insertion", "single_buffered"):
        if getattr(options, name) and not options.overlap:
            raise UserError(task.name, name, True, "False without overlap: actors and learner take turns")


def _check_fusion(options: Options, task: Task, mapping: Mapping) -> None:
    """Refuse a fusion that the mapping does not allow, and what a mapping's parts cannot hide."""
    fusion = compose.chosen_fusion(task, mapping, options.ahead(task), options)
    if options.deferred_insertion and fusion is Fusion.STEP:
        raise UserError(task.name, "deferred_insertion", True, f"False with fusion = {fusion}")
    if options.streamed and mapping.learner.backend != "fpga":
        raise UserError(mapping, "streamed", True, "False: only a learner on the simulated FPGA has streams")


def _check_managed(task: Task, mapping: Mapping) -> None:
    """Raise UserError if a mapping names replay management for a task without it: a row would claim that it ran."""
    managed = not is_on_policy(task) and task.replay.prioritized
    if not managed and str(mapping.rmm) != "native":
        raise UserError(
            mapping, "rmm", mapping.rmm, f"native: {task.name} has no prioritised replay to manage"
        )
