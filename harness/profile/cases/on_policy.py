"""Defines how the calls of an on-policy iteration are timed, each made as the runtime makes it (PPO 2.1)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from harness.mapping import Problem, Target
from harness.measure.protocol import Case
from harness.profile.cases.base import CPU, PrimitiveCase, expect_equal, random_transitions
from harness.profile.cases.learners import check_step, created, learner_targets
from harness.profile.cases.round_checks import check_collect
from harness.profile.cases.rounds import collect_case
from harness.profile.cases.shared_parts import SharedParts
from harness.profile.cases.trained import profiled_start
from harness.runtime.actors.in_process import Actors
from harness.runtime.compose import actors_of
from harness.workloads import Workload
from harness.workloads.task import columns_of
from primitives.algorithms.ppo import PPO, Rollout
from primitives.learner import Learner
from primitives.quantization.precision import FLOAT_32
from primitives.replay import FieldSpec


@dataclass
class _Dealt:
    """A learner and its stream of minibatches, epoch after epoch."""

    learner: Learner
    samples: dict[str, npt.NDArray]
    batch_size: int
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))
    dealing: Iterator[dict[str, npt.NDArray]] = field(default_factory=lambda: iter(()))

    def batch(self) -> dict[str, npt.NDArray]:
        """Return the next minibatch."""
        found = next(self.dealing, None)
        if found is None:
            algorithm = cast(PPO, self.learner.algorithm)
            self.dealing = algorithm.minibatches(self.samples, self.batch_size, self.rng)
            found = next(self.dealing)
        return found


def on_policy_cases(
    workload: Workload,
    problem: Problem,
    precisions: Sequence[str] = (FLOAT_32,),
    parts: SharedParts | None = None,
) -> Iterator[PrimitiveCase]:
    """Yield the benchmark cases of the calls in an on-policy iteration.

    `round.collect` is one vector step of the actors, `round.learn` a step on a minibatch, both for every learner's
    backend and device; `round.prepare` computes the advantages and returns of an iteration, on the CPU.

    Args:
        workload: defines the sizes.
        problem: properties of the workload, such as the vector steps of an iteration.
        precisions: precisions of the learners.
    """
    for target in learner_targets(precisions):
        learner = cache(partial(_created, workload, problem, target))
        yield collect_case(workload, target, learner, _fields(workload), clip=True)
        if problem.actor_processes:
            yield _iteration_case(problem, target, learner, parts or SharedParts(workload, problem))
        yield _learn_case(workload, problem, target, learner)
    yield _prepare_case(workload, problem, learner)


def _created(workload: Workload, problem: Problem, target: Target) -> Learner:
    start = profiled_start(workload)
    return created(workload, problem.batch_size, target, start, problem.learner_threads)


def _iteration_case(problem: Problem, target: Target, learner: Any, parts: SharedParts) -> PrimitiveCase:
    """Return the case of an iteration's vector steps in processes, the hand-over of the weights included."""
    workload, length = parts.workload, problem.trajectory_length

    def setup() -> Actors:
        environment_seed, exploration_seed = np.random.SeedSequence(0).spawn(2)
        plan = actors_of(workload, environment_seed, exploration_seed, _fields(workload), length, clip=True)
        return parts.on_policy_actors(plan, learner(), problem.actor_processes)

    def call(acting: Actors) -> None:
        acting.publish()
        acting.collect(length)

    return PrimitiveCase(
        "iteration.collect",
        target,
        length * problem.actors,
        Case(
            name=f"iteration.collect {target}",
            setup=setup,
            check=lambda acting: check_collect(acting.collect),
            inputs=lambda acting, rng: None,
            call=lambda acting, _: call(acting),
            close=lambda acting: acting.close(),
        ),
    )


def _fields(workload: Workload) -> dict[str, FieldSpec]:
    """Return the columns that `OnPolicyTraining` collects."""
    return columns_of(workload) | {"truncated": FieldSpec((), np.bool_)}


def _rollout(workload: Workload, problem: Problem) -> Rollout:
    shape = (problem.trajectory_length, problem.actors)
    columns = random_transitions(_fields(workload), shape[0] * shape[1], np.random.default_rng(0))
    return Rollout(**{name: column.reshape(*shape, *column.shape[1:]) for name, column in columns.items()})


def _learn_case(workload: Workload, problem: Problem, target: Target, learner: Any) -> PrimitiveCase:
    def setup() -> _Dealt:
        made = learner()
        return _Dealt(made, profiled_start(workload).columns, problem.batch_size)

    def check(made: _Dealt) -> None:
        check_step(workload, made.learner, made.batch())

    return PrimitiveCase(
        "round.learn",
        target,
        problem.batch_size,
        Case(
            name=f"round.learn {target}",
            setup=setup,
            check=check,
            inputs=lambda made, rng: None,
            call=lambda made, _: made.learner.step(made.batch(), variant="full"),
        ),
    )


def _prepare_case(workload: Workload, problem: Problem, learner: Any) -> PrimitiveCase:
    def setup() -> tuple[PPO, dict[str, npt.NDArray], Rollout]:
        made = learner()
        return cast(PPO, made.algorithm), made.parameters(), _rollout(workload, problem)

    def check(made: tuple[PPO, dict[str, npt.NDArray], Rollout]) -> None:
        """Check that the samples are the rollout's own, and that advantage plus value is the value's target."""
        algorithm, parameters, rollout = made
        samples = algorithm.prepare(parameters, rollout)
        expect_equal(samples["action"], rollout.action.reshape(samples["action"].shape), "actions")
        features = algorithm._features(parameters, samples["observation"])
        value_parameters = {
            name.removeprefix("value."): array
            for name, array in parameters.items()
            if name.startswith("value.")
        }
        value = algorithm.networks["value"](value_parameters, features)[:, 0]
        np.testing.assert_allclose(
            samples["value_target"] - samples["advantage"], value, rtol=1e-3, atol=1e-3, err_msg="values"
        )

    return PrimitiveCase(
        "round.prepare",
        CPU,
        problem.trajectory_length * problem.actors,
        Case(
            name="round.prepare",
            setup=setup,
            check=check,
            inputs=lambda made, rng: None,
            call=lambda made, _: made[0].prepare(made[1], made[2]),
        ),
    )
