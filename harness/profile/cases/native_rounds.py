"""Trainings whose whole rounds or iterations are native calls, timed in the parts that these calls tell apart.

Nothing of such a call can be timed alone at its place. Its parts are those of a training like any other, and what is
left of a round is its part "runtime".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from placerl.harness.mapping import Loop, Problem, Target
from placerl.harness.mapping import Mapping as Placement
from placerl.harness.mapping.target import CPU, NATIVE
from placerl.harness.pieces.base import PrimitiveCase
from placerl.harness.profile.cases.shared_parts import SharedParts
from placerl.harness.profile.cases.training import TimedTraining, training_case
from placerl.harness.workloads import Workload

ROUND = {"collect": ("environment", "infer"), "insert": ("insert",), "steps": ("step",)}
ITERATION = {"collect": ("environment", "infer"), "prepare": ("prepare",), "learn": ("learner",)}
"""The terms of a training (`Progress.terms_s`) that make up each part."""
RUNTIME = {"runtime": ("loop",)}


def native_cases(
    workload: Workload, problem: Problem, parts: SharedParts, targets: Sequence[Target]
) -> Iterator[PrimitiveCase]:
    """Yield the benchmark cases of the parts of native rounds, or of native iterations of an on-policy algorithm.

    Args:
        targets: the learners, whose rounds or iterations are one native call.
    """
    name, steps = "native_round", problem.round_gradient_steps
    terms: Mapping[str, tuple[str, ...]] = ROUND
    if problem.on_policy:
        name, steps, terms = "native_iteration", problem.iteration_gradient_steps, ITERATION

    def taken(run: TimedTraining) -> dict[str, float]:
        """Return the seconds of each part, of a round."""
        told_s, rounds = run.taken(), run.gradient_steps / steps
        every = {**terms, **RUNTIME}
        return {part: sum(told_s.get(one, 0.0) for one in ones) / rounds for part, ones in every.items()}

    for target in targets:
        of = training_case(workload, problem, Placement(target, NATIVE, CPU), {}, Loop.FUSED, parts)
        case = replace(of.case, name=f"{name.replace('_', ' ')} {target}", parts=taken)
        for part in terms:
            yield PrimitiveCase(f"{name}.{part}", target, problem.batch_size, case, part)
        if target == NATIVE:
            yield PrimitiveCase(f"{name}.runtime", CPU, 1, case, "runtime")
