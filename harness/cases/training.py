"""Whole training under a mapping, timed as one more case beside its pieces."""

from collections import defaultdict
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np
import numpy.typing as npt

from harness.cases.base import PrimitiveCase
from harness.cases.learners import LATE
from harness.cases.rounds import fill
from harness.mapping import Mapping, Problem
from harness.measure import Case
from harness.runtime.actor import Actor
from harness.runtime.actor_pool import ActorPlan
from harness.runtime.compose import compose
from harness.runtime.on_policy import OnPolicyTraining
from harness.runtime.training import Progress, Training
from harness.workload import Workload

STRETCH_S = 10e-3
"""Of a call: so long that the call's own time is nothing."""


@dataclass
class Run:
    """A training under way, and what was counted of it.

    Attributes:
        training: where it stands.
        gradient_steps: of a call.
        terms_s: seconds of each part of the loop since they were last taken; `loop` is what the others leave.
    """

    training: Training | OnPolicyTraining
    gradient_steps: int = 1
    terms_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def advance(self) -> Progress:
        """One call's gradient steps."""
        progress = self.training.advance(self.gradient_steps)
        for name, seconds in progress.terms_s.items():
            self.terms_s[name] += seconds
        self.terms_s["loop"] += progress.wall_s - sum(progress.terms_s.values())
        return progress

    def taken(self) -> dict[str, float]:
        """Seconds of each part since the last call."""
        found, self.terms_s = dict(self.terms_s), defaultdict(float)
        return found

    def close(self) -> None:
        """Close the environments."""
        self.training.close()


def training_case(
    workload: Workload, problem: Problem, mapping: Mapping, runs: dict[str, Run]
) -> PrimitiveCase:
    """`training`: gradient steps with everything that belongs to them, at the steady state.

    The replay is full, of random transitions, and exploration has reached its end: so are they in the pieces that
    the prediction is made from, and in most of a long training.

    Args:
        workload: with a replay that fits the memory once for each mapping.
        problem: what the models know of the workload.
        mapping: what runs where.
        runs: where the run puts itself, by the mapping's name.
    """

    def setup() -> Run:
        training = (
            _on_policy(workload, problem, mapping)
            if problem.on_policy
            else _off_policy(workload, problem, mapping)
        )
        if isinstance(training, Training):
            training.take(1)  # the protocol warms up: what `warm_up` does is many large steps too much
        run = Run(training)
        if problem.on_policy:
            run.gradient_steps = run.advance().gradient_steps  # whole iterations
        else:
            run.gradient_steps = problem.round_gradient_steps
            while (step_s := min(_step_s(run) for _ in range(3))) * run.gradient_steps < STRETCH_S / 2:
                wanted = min(STRETCH_S / step_s, 10 * run.gradient_steps)
                run.gradient_steps = (
                    round(wanted / problem.round_gradient_steps) * problem.round_gradient_steps
                )
        runs[str(mapping)] = run
        return run

    def check(run: Run) -> None:
        """It learns: the acting parameters move and stay finite, as do the losses."""
        before = run.training.learner.parameters()
        progress = run.advance()
        after = run.training.learner.parameters()
        if progress.gradient_steps != run.gradient_steps:
            raise AssertionError(
                f"gradient steps: found {progress.gradient_steps}; expected {run.gradient_steps}"
            )
        if not progress.losses or not np.isfinite(list(progress.losses.values())).all():
            raise AssertionError(f"losses: found {progress.losses}; expected finite numbers")
        if not all(np.isfinite(array).all() for array in after.values()):
            raise AssertionError("parameters: found NaN or infinity; expected finite numbers")
        if all(np.array_equal(before[name], after[name]) for name in before):
            raise AssertionError("parameters: found no change; expected a gradient step")

    return PrimitiveCase(
        "training",
        mapping.learner,
        problem.batch_size,
        Case(
            name=f"training {mapping}",
            setup=setup,
            check=check,
            inputs=lambda run, rng: None,
            call=lambda run, _: run.advance(),
            close=Run.close,
            parts=Run.taken,
        ),
    )


class _Late(ActorPlan):
    """An actor whose exploration has reached its final rate."""

    def build(self, columns: MappingABC[str, npt.NDArray] | None = None) -> Actor:
        actor = super().build(columns)
        actor.environment_steps = LATE
        return actor


def _step_s(run: Run) -> float:
    start_s = perf_counter()
    taken = run.advance().gradient_steps
    return (perf_counter() - start_s) / taken


def _off_policy(workload: Workload, problem: Problem, mapping: Mapping) -> Training:
    parts = compose(
        workload,
        mapping,
        batch_size=problem.batch_size,
        seed=0,
        local_storage=max(problem.round_vector_steps, 256),
    )
    fill(parts.replay, np.random.default_rng(0))
    parts = replace(parts, actors=_Late(**vars(parts.actors)))
    return Training(workload, mapping, batch_size=problem.batch_size, presampled_batches=0, parts=parts)


def _on_policy(workload: Workload, problem: Problem, mapping: Mapping) -> OnPolicyTraining:
    return OnPolicyTraining(workload, mapping, batch_size=problem.batch_size)
