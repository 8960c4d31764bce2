"""Says which neighbouring calls of a training can be one native call, and which are (`Fusion`)."""

from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import Environments, Fusion, InitialPriorities, Schedule, is_on_policy
from placerl.harness.mapping.target import CPU, NATIVE, Mapping
from placerl.harness.runtime import resident
from placerl.harness.workloads.task import Task, algorithm_of
from placerl.primitives.quantization.precision import IN_FLOATS
from placerl.primitives.training import exploration
from placerl.primitives.training.on_policy import refusal


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
