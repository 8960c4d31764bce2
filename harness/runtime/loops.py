"""Defines the options that run a mapping in each of the loops, the orders of calls that performance models describe."""

from dataclasses import replace
from typing import Any

from placerl.harness.core.errors import OptionName, UserError
from placerl.harness.loop.schedule import Fusion, Loop, Schedule, is_on_policy
from placerl.harness.mapping.problem import problem_of
from placerl.harness.mapping.target import Mapping
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.runtime.time_provenance import is_simulated
from placerl.harness.workloads import Workload


def under(loop: Loop, schedule: Schedule, item: Workload, mapping: Mapping, batch_size: int) -> Schedule:
    """Return the options with which a mapping runs in a given loop, the order in which its parts are called.

    | loop | gradient steps | actors | replay manager |
    |---|---|---|---|
    | strict | separate calls | in turns with the learner | in turns with the learner, D = 0 |
    | fused | neighbouring calls joined into one | in turns | in turns, D = 0 |
    | overlapped | as fused | in processes, 32 gradient steps at a time | in turns, D = 0 |
    | relaxed | as fused | as overlapped | in parallel with the learner, D = 50 (MAP V-A, VII-B) |

    D, the number of batches sampled ahead, and the gradient steps of an iteration are those of predictions
    (`harness.mapping.problem.Problem`): D is smaller if the replay, or an eighth of a process's memory, does not hold
    so many, and an iteration has 8 gradient steps in virtual time. Each actor process has a policy and a random stream
    of its own. There is one process per core that the learners' threads and the replay manager leave free, and at
    least one; in virtual time there is none.

    Args:
        loop: the order of calls, "strict", "fused", "overlapped" or "relaxed".
        schedule: requested options; those that the loop does not determine are kept.
        item: the workload, with the requested number of actors.

    Raises:
        UserError: an option contradicts the loop, or an on-policy workload is asked for a loop with a replay.
    """
    if is_on_policy(item):
        if loop is Loop.FUSED:
            return schedule
        raise UserError(
            item.name, OptionName("loop"), loop, f"{Loop.FUSED} for an algorithm without a replay"
        )
    by_loop: dict[Loop, dict[str, Any]] = {
        Loop.STRICT: {"fusion": Fusion.NONE, "presampled_batches": 0, "overlap": 0},
        Loop.FUSED: {"presampled_batches": 0, "overlap": 0},
        Loop.OVERLAPPED: {"presampled_batches": 0},
        Loop.RELAXED: {},
    }
    for name, allowed in by_loop[loop].items():
        if (found := schedule.given().get(name)) not in (None, allowed):
            raise UserError("command line", name, found, f"{allowed} in the {loop} loop")
    if schedule.replay_beside and loop is not Loop.RELAXED:
        raise UserError("command line", "replay_beside", True, f"nothing in the {loop} loop")
    made = replace(schedule, fusion=Fusion.NONE) if loop is Loop.STRICT else schedule
    if loop in (Loop.STRICT, Loop.FUSED):
        return replace(made, presampled_batches=0)
    problem, simulated = problem_of(item, batch_size), is_simulated(mapping)
    if schedule.processes is None and not simulated:
        busy = schedule.threads + schedule.learners - 1 + (loop is Loop.RELAXED)
        made = replace(made, processes=min(item.training.actors, max(1, len(usable_cores()) - busy)))
    if not schedule.overlap:
        made = replace(made, overlap=problem.overlapped_rounds(simulated) * problem.round_gradient_steps)
    if loop is Loop.OVERLAPPED:
        return replace(made, presampled_batches=0)
    ahead = problem.ahead if schedule.presampled_batches is None else schedule.presampled_batches
    return replace(made, presampled_batches=ahead, replay_beside=True)
