"""Defines the loops in which a mapping can run, by their options.

A loop is an order of calls, which a performance model describes.
"""

from collections.abc import Mapping as MappingABC
from dataclasses import replace
from typing import Any

from placerl.harness.core.errors import OptionName, UserError
from placerl.harness.loop.placement import actor_threads
from placerl.harness.loop.schedule import IN_PARALLEL, Fusion, Loop, Schedule, is_on_policy
from placerl.harness.mapping.problem import problem_of
from placerl.harness.mapping.target import Mapping
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.runtime.simulated_parts import is_simulated
from placerl.harness.workloads import Workload

LEAST_CONCURRENT_CORES = 2
"""Of the concurrent loop: one of a learner, and one that its replay manager may share with the actors."""

_MANAGED = (Loop.RELAXED, Loop.CONCURRENT)
"""The loops in which the replay manager works in parallel with the learner."""

_DETERMINED: MappingABC[Loop, dict[str, Any]] = {
    Loop.STRICT: {"fusion": Fusion.NONE, "presampled_batches": 0, "overlap": 0},
    Loop.FUSED: {"presampled_batches": 0, "overlap": 0},
    Loop.OVERLAPPED: {"presampled_batches": 0},
    Loop.RELAXED: {},
    Loop.CONCURRENT: {},
    Loop.RESIDENT: {"fusion": Fusion.RESIDENT, "overlap": 0},
}
"""The options that a loop determines: nothing else may be asked for."""


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
        UserError: an option contradicts the loop, an on-policy workload is asked for a loop with a replay, the
            concurrent loop for one core, or the resident loop for a workload with batches sampled ahead of its own,
            unless an option states their number.
    """
    if is_on_policy(item):
        return _on_policy(loop, schedule, item)
    concurrent = loop is Loop.CONCURRENT
    threads = schedule.threads_native or concurrent
    determined = dict(_DETERMINED[loop])
    if threads and loop is Loop.FUSED:
        determined["processes"] = 0
    _check(loop, schedule, item, determined)
    under_loop = replace(schedule, **determined)
    if loop in (Loop.STRICT, Loop.FUSED, Loop.RESIDENT):
        return replace(under_loop, presampled_batches=under_loop.presampled_batches or 0)
    problem, simulated = problem_of(item, item.training.batch_size), is_simulated(mapping)
    if schedule.processes is None and not simulated:
        processes = actor_threads(
            item.training.actors,
            len(usable_cores()),
            learners=schedule.threads + schedule.learners - 1,
            managers=schedule.learners if concurrent else int(loop in _MANAGED),
        )
        under_loop = replace(under_loop, processes=processes)
    if not schedule.overlap and not threads:
        rounds = problem.overlapped_rounds(simulated)
        under_loop = replace(under_loop, overlap=rounds * problem.round_gradient_steps)
    if loop is Loop.OVERLAPPED:
        return under_loop
    ahead = problem.ahead if schedule.presampled_batches is None else schedule.presampled_batches
    under_loop = replace(under_loop, presampled_batches=ahead, replay_beside=True)
    return replace(under_loop, threads_native=True, pinned=True) if concurrent else under_loop


def _check(loop: Loop, schedule: Schedule, item: Workload, determined: MappingABC[str, Any]) -> None:
    """Check that the requested options are none that contradict a loop with a replay."""
    if loop is Loop.CONCURRENT and len(usable_cores()) < LEAST_CONCURRENT_CORES:
        allowed = f"{Loop.FUSED} on one core, where nothing runs at the same time"
        raise UserError(item.name, OptionName("loop"), loop, allowed)
    for name, allowed in determined.items():
        if (found := schedule.given().get(name)) not in (None, allowed):
            raise UserError("command line", name, found, f"{allowed} in the {loop} loop")
    threads = schedule.threads_native or loop is Loop.CONCURRENT
    if threads and loop in (*IN_PARALLEL, Loop.CONCURRENT) and schedule.processes == 0:
        allowed = f"at least 1 in the {loop} loop: with 0 one thread of C++ acts and learns in turns"
        raise UserError("command line", "processes", 0, allowed)
    if schedule.replay_beside and loop not in _MANAGED:
        raise UserError("command line", "replay_beside", True, f"nothing in the {loop} loop")
    own = item.training.presampled_batches
    if loop is Loop.RESIDENT and own and schedule.presampled_batches is None:
        allowed_unless = (
            f"0 in the {loop} loop, unless ",
            OptionName("presampled_batches"),
            " states a number",
        )
        raise UserError(item.name, "training.presampled_batches", own, allowed_unless)


def _on_policy(loop: Loop, schedule: Schedule, item: Workload) -> Schedule:
    if loop not in (Loop.FUSED, Loop.RESIDENT):
        allowed = f"{Loop.FUSED}, {Loop.RESIDENT} for an algorithm without a replay"
        raise UserError(item.name, OptionName("loop"), loop, allowed)
    if loop is Loop.FUSED:
        return schedule
    if schedule.fusion not in (None, Fusion.RESIDENT):
        raise UserError("command line", "fusion", schedule.fusion, f"{Fusion.RESIDENT} in the {loop} loop")
    return replace(schedule, fusion=Fusion.RESIDENT)
