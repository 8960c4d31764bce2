"""Defines the loops in which a mapping can run: their options, and which neighbouring calls are one native call.

A loop is an order of calls, which a performance model describes.
"""

from dataclasses import replace
from typing import Any

from placerl.harness.core.errors import OptionName, UserError
from placerl.harness.loop.placement import actor_threads
from placerl.harness.loop.schedule import (
    Environments,
    Fusion,
    InitialPriorities,
    Loop,
    Schedule,
    is_on_policy,
)
from placerl.harness.mapping.problem import problem_of
from placerl.harness.mapping.target import CPU, NATIVE, Mapping
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.runtime import resident
from placerl.harness.runtime.simulated_parts import is_simulated
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import Task, algorithm_of
from placerl.primitives.quantization.precision import IN_FLOATS
from placerl.primitives.training import exploration
from placerl.primitives.training.on_policy import refusal

LEAST_CONCURRENT_CORES = 2
"""Of the concurrent loop: one of a learner, and one that its replay manager may share with the actors."""


def under(loop: Loop, schedule: Schedule, item: Workload, mapping: Mapping) -> Schedule:
    """Return the options with which a mapping runs in a given loop, the order in which its parts are called.

    | loop | gradient steps | actors | replay manager |
    |---|---|---|---|
    | strict | separate calls | in turns with the learner | in turns with the learner, D = 0 |
    | fused | neighbouring calls joined into one | in turns | in turns, D = 0 |
    | overlapped | as fused | in processes, 32 gradient steps at a time | in turns, D = 0 |
    | relaxed | as fused | as overlapped | in parallel with the learner, D = 50 (MAP V-A, VII-B) |
    | concurrent | in a C++ thread | in C++ threads, which run free | in a C++ thread, D = 50 |
    | resident | as fused, in graphs of the learner's device | in turns, on the device | in turns, or D on request |

    D, the number of batches sampled ahead, and the gradient steps of an iteration are those of predictions
    (`harness.mapping.problem.Problem`): D is smaller if the replay, or an eighth of a process's memory, does not hold
    so many, and an iteration has 8 gradient steps in virtual time. Each actor process has a policy and a random stream
    of its own. There is one process per core that the learners' threads and the replay manager leave free, and at
    least one; in virtual time there is none. C++ threads act and learn at the same time in the overlapped, the relaxed
    and the concurrent loop, without iterations, and in turns on one thread in the fused one. In the concurrent loop
    each thread is bound to a core.

    Args:
        loop: the order of calls.
        schedule: requested options; those that the loop does not determine are kept.
        item: the workload, with the requested number of actors.

    Raises:
        UserError: an option contradicts the loop, an on-policy workload is asked for a loop with a replay, or the
            concurrent loop for one core.
    """
    if is_on_policy(item):
        if loop not in (Loop.FUSED, Loop.RESIDENT):
            allowed = f"{Loop.FUSED}, {Loop.RESIDENT} for an algorithm without a replay"
            raise UserError(item.name, OptionName("loop"), loop, allowed)
        if loop is Loop.FUSED:
            return schedule
        if schedule.fusion not in (None, Fusion.RESIDENT):
            raise UserError(
                "command line", "fusion", schedule.fusion, f"{Fusion.RESIDENT} in the {loop} loop"
            )
        return replace(schedule, fusion=Fusion.RESIDENT)
    by_loop: dict[Loop, dict[str, Any]] = {
        Loop.STRICT: {"fusion": Fusion.NONE, "presampled_batches": 0, "overlap": 0},
        Loop.FUSED: {"presampled_batches": 0, "overlap": 0},
        Loop.OVERLAPPED: {"presampled_batches": 0},
        Loop.RELAXED: {},
        Loop.CONCURRENT: {},
        Loop.RESIDENT: {"fusion": Fusion.RESIDENT, "overlap": 0},
    }
    concurrent = loop is Loop.CONCURRENT
    if concurrent and len(usable_cores()) < LEAST_CONCURRENT_CORES:
        allowed = f"{Loop.FUSED} on one core, where nothing runs at the same time"
        raise UserError(item.name, OptionName("loop"), loop, allowed)
    managed = loop is Loop.RELAXED or concurrent
    threads = schedule.threads_native or concurrent
    if threads and loop is Loop.FUSED:
        by_loop[loop]["processes"] = 0
    for name, allowed in by_loop[loop].items():
        if (found := schedule.given().get(name)) not in (None, allowed):
            raise UserError("command line", name, found, f"{allowed} in the {loop} loop")
    if schedule.replay_beside and not managed:
        raise UserError("command line", "replay_beside", True, f"nothing in the {loop} loop")
    determined = by_loop[loop].get("fusion", schedule.fusion)
    adjusted = replace(schedule, fusion=determined)
    if loop in (Loop.STRICT, Loop.FUSED, Loop.RESIDENT):
        processes = by_loop[loop].get("processes", schedule.processes)
        return replace(adjusted, presampled_batches=schedule.presampled_batches or 0, processes=processes)
    problem, simulated = problem_of(item, item.training.batch_size), is_simulated(mapping)
    if schedule.processes is None and not simulated:
        processes = actor_threads(
            item.training.actors,
            len(usable_cores()),
            learners=schedule.threads + schedule.learners - 1,
            managers=schedule.learners if concurrent else int(managed),
        )
        adjusted = replace(adjusted, processes=processes)
    if not schedule.overlap and not threads:
        adjusted = replace(
            adjusted, overlap=problem.overlapped_rounds(simulated) * problem.round_gradient_steps
        )
    if loop is Loop.OVERLAPPED:
        return replace(adjusted, presampled_batches=0)
    ahead = problem.ahead if schedule.presampled_batches is None else schedule.presampled_batches
    adjusted = replace(adjusted, presampled_batches=ahead, replay_beside=True)
    return replace(adjusted, threads_native=True, pinned=True) if concurrent else adjusted


def fusions(
    task: Task, mapping: Mapping, presampled_batches: int, beside: bool = False
) -> tuple[Fusion, ...]:
    """Return the fusions that a mapping allows: which calls can be joined into one native call, from none to all.

    Without `beside`, batches that are sampled ahead leave the replay before their gradient step, so whole steps
    cannot be fused.

    Args:
        task: the task that is trained, with a replay.
        presampled_batches: D, batches sampled ahead.
        beside: whether a replay manager samples the batches in parallel with the learner.
    """
    possible = [Fusion.NONE]
    if mapping.rmm == NATIVE and mapping.storage == CPU and task.replay.prioritized:
        possible.append(Fusion.REPLAY)
        if mapping.learner.in_floats == NATIVE and (presampled_batches == 0 or beside):
            possible.append(Fusion.STEP)
    return tuple(possible)


def fuses_rounds(task: Task, mapping: Mapping, schedule: Schedule) -> bool:
    """Return whether whole rounds can be one native call: environments, policy, replay and gradient steps.

    All of them must be native, and take turns in one process.
    """
    in_turns = not (schedule.actor_processes(task) or schedule.overlap or schedule.replay_beside)
    return (
        in_turns
        and schedule.initial_priorities is InitialPriorities.MAX
        and Fusion.STEP in fusions(task, mapping, schedule.ahead(task))
        and mapping.learner.precision in IN_FLOATS
        and schedule.stepping(task) is Environments.NATIVE
        and not exploration.refusal(algorithm_of(task))
    )


def on_policy_fusions(task: Task, mapping: Mapping, schedule: Schedule) -> tuple[Fusion, ...]:
    """Return which calls can be joined into one native call for an on-policy task: none, or also whole iterations.

    A whole iteration can be one call if environments and learner are native and there is no actor process.

    Args:
        task: the on-policy task that is trained.
        mapping: gives the learner.
        schedule: says what steps the environments, and how many processes are requested.
    """
    alone = not schedule.actor_processes(task)
    able = schedule.stepping(task) is Environments.NATIVE and mapping.learner == NATIVE and alone
    return (Fusion.NONE, Fusion.ITERATION) if able and not refusal(algorithm_of(task)) else (Fusion.NONE,)


def chosen_fusion(task: Task, mapping: Mapping, schedule: Schedule) -> Fusion:
    """Return which calls are joined into one native call: as requested, or by default as many as possible.

    Raises:
        UserError: the task, the mapping or the options do not allow the requested fusion.
    """
    if schedule.fusion is Fusion.RESIDENT:
        resident.check(schedule, task, mapping)
        return Fusion.RESIDENT
    on_policy = is_on_policy(task)
    if on_policy:
        possible = on_policy_fusions(task, mapping, schedule)
    else:
        possible = fusions(task, mapping, schedule.ahead(task), schedule.replay_beside)
        if fuses_rounds(task, mapping, schedule):
            possible += (Fusion.ROUND,)
    chosen = possible[-1] if schedule.fusion is None else schedule.fusion
    if chosen in possible:
        return chosen
    allowed: tuple[object, ...] = (", ".join(possible),)
    if on_policy and chosen is Fusion.ITERATION:
        allowed += (f"; {chosen} with native environments, a native learner, two networks and no processes",)
    raise UserError(task.name if on_policy else mapping, "fusion", chosen, allowed)
