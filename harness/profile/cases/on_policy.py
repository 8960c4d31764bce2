"""Defines how the calls of an on-policy iteration are timed, each made as the runtime makes it (PPO 2.1).

They are timed in the order of an iteration. If each were called repeatedly, its code and data would be warmer in the
caches than in a loop: CartPole's advantages then take two thirds of the time, and its training is predicted 8 to 14%
too fast.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from time import perf_counter
from typing import cast

import numpy as np
import numpy.typing as npt

from placerl.harness.loop.recorder import Recorder
from placerl.harness.loop.schedule import Fusion, Schedule
from placerl.harness.mapping import Mapping, Problem, Target
from placerl.harness.mapping.target import CPU
from placerl.harness.measure.pace import Piece
from placerl.harness.measure.protocol import Case
from placerl.harness.pieces.base import PrimitiveCase, expect_equal
from placerl.harness.pieces.learners import check_step, learner_targets
from placerl.harness.profile.cases.native_rounds import native_cases
from placerl.harness.profile.cases.round_checks import check_collect
from placerl.harness.profile.cases.rounds import NATIVE, actor_for
from placerl.harness.profile.cases.runtime_rounds import empty_iterations
from placerl.harness.profile.cases.shared_parts import SharedParts
from placerl.harness.profile.cases.trained import profiled_start
from placerl.harness.runtime.actors.in_process import Actors, InlineActors
from placerl.harness.runtime.compose import actors_of
from placerl.harness.runtime.fusions import on_policy_fusions
from placerl.harness.runtime.on_policy import OnPolicyTraining
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import columns_of
from placerl.primitives.algorithms.ppo import PPO, Rollout
from placerl.primitives.learner import Learner
from placerl.primitives.quantization.precision import FLOAT_32
from placerl.primitives.replay import FieldSpec

PART_S = 20e-3
"""Most seconds of a part in a timed iteration. A longer part is shortened."""


@dataclass
class TimedIteration:
    """An on-policy iteration that is timed in parts, in the order in which the runtime calls them.

    Long parts are shortened: the actors take only some of the vector steps, and the learner some of the gradient steps.
    The first vector steps after another part are slower than the others. If only some are timed, the same number of
    untimed ones precedes them; without this, with 13 steps, the training of Hopper was predicted 7% too slow.

    Attributes:
        acting: the actors, which act on the learner's policy, in this process or in others.
        rollout: the steps whose advantages are computed. In this process, the next steps replace its first ones.
        runtime: a training whose parts do nothing, which shows the time of the runtime itself.
        vector_steps, gradient_steps: number of steps in a timed iteration.
    """

    learner: Learner
    acting: Actors
    rollout: Rollout
    runtime: OnPolicyTraining
    vector_steps: int
    gradient_steps: int
    clock: Recorder = field(default_factory=Recorder)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    @property
    def algorithm(self) -> PPO:
        """Return the algorithm, PPO."""
        return cast(PPO, self.learner.algorithm)

    def run(self) -> None:
        """Run the parts of one iteration, and one of the training whose parts do nothing."""
        clock = self.clock
        if self.vector_steps < len(self.rollout.reward):
            self.acting.collect(self.vector_steps)
        clock.open()
        clock.timed("collect", self.collect)
        samples = clock.timed("prepare", self.prepare)
        clock.timed("learn", self.learn, self.dealt(samples))
        clock.timed("runtime", self.runtime.advance, 1)

    def collect(self) -> None:
        """Hand over the weights to the actors, and let them take the vector steps."""
        self.acting.publish()
        self.acting.collect(self.vector_steps)

    def prepare(self) -> dict[str, npt.NDArray]:
        """Return the samples of the rollout, by column, with the advantages of the learner's own values."""
        return self.algorithm.prepare(self.learner.parameters(), self.rollout)

    def dealt(self, samples: dict[str, npt.NDArray]) -> Iterator[dict[str, npt.NDArray]]:
        """Yield the minibatches of an iteration."""
        return self.algorithm.minibatches(samples, self.learner.batch_size, self.rng)

    def learn(self, minibatches: Iterator[dict[str, npt.NDArray]]) -> None:
        """Take the gradient steps of an iteration, each on the next minibatch."""
        for _ in range(self.gradient_steps):
            self.learner.step(next(minibatches), variant="full")

    def taken(self) -> dict[str, list[Piece]]:
        """Return the timed pieces of each part since the last call of this method, in a dict from the part's name."""
        inline = isinstance(self.acting, InlineActors)
        calls = {"collect": self.vector_steps if inline else 1, "learn": self.gradient_steps}
        return {
            part: [piece._replace(calls=piece.calls * calls.get(part, 1)) for piece in pieces]
            for part, pieces in self.clock.taken().items()
        }

    def close(self) -> None:
        """Close the environments, unless they are in processes that others use, too."""
        self.acting.close()


def on_policy_cases(
    workload: Workload,
    problem: Problem,
    precisions: Sequence[str] = (FLOAT_32,),
    parts: SharedParts | None = None,
) -> Iterator[PrimitiveCase]:
    """Yield the benchmark cases of the calls in an on-policy iteration.

    `round.collect` is one vector step of the actors, `round.learn` a step on a minibatch, both for every learner's
    backend and device; `round.prepare` computes the advantages and returns of an iteration, on the CPU, and
    `iteration.runtime` is an iteration of the runtime with parts that do nothing. With actors in processes,
    `iteration.collect` is all vector steps of an iteration, with the weights handed over, and takes the place of
    `round.collect`. Where an iteration is one native call, `native_iteration` has its parts.

    Args:
        parts: learners and actors shared with other cases; None creates them.
    """
    shared = parts or SharedParts(workload, problem)
    length = problem.trajectory_length
    samples = length * problem.actors
    for target in learner_targets(precisions):
        case = _iteration_case(problem, target, shared)
        if problem.actor_processes:
            yield PrimitiveCase("iteration.collect", target, samples, case, "collect")
        else:
            yield PrimitiveCase("round.collect", target, problem.actors, case, "collect")
        yield PrimitiveCase("round.learn", target, problem.batch_size, case, "learn")
        if target.backend == "torch":
            # It may have several threads, which PyTorch's part of `prepare` then has, too.
            yield PrimitiveCase("round.prepare", target, samples, case, "prepare")
        if target == NATIVE:
            yield PrimitiveCase("round.prepare", CPU, samples, case, "prepare")
            yield PrimitiveCase("iteration.runtime", CPU, 1, case, "runtime")
    schedule = Schedule(threads=problem.learner_threads, processes=problem.actor_processes)
    whole = [
        target
        for target in learner_targets(precisions)
        if Fusion.ITERATION in on_policy_fusions(workload, Mapping(target, NATIVE, CPU), schedule)
    ]
    yield from native_cases(workload, problem, shared, whole)


def _fields(workload: Workload) -> dict[str, FieldSpec]:
    """Return the columns that `OnPolicyTraining` collects."""
    return columns_of(workload) | {"truncated": FieldSpec((), np.bool_)}


def _acting(problem: Problem, learner: Learner, parts: SharedParts) -> Actors:
    workload, length = parts.workload, problem.trajectory_length
    if not problem.actor_processes:
        return InlineActors(actor_for(workload, length, _fields(workload), clip=True), learner)
    environment_seed, exploration_seed = np.random.SeedSequence(0).spawn(2)
    plan = actors_of(workload, environment_seed, exploration_seed, _fields(workload), length, clip=True)
    return parts.on_policy_actors(plan, learner, problem.actor_processes)


def _iteration_case(problem: Problem, target: Target, parts: SharedParts) -> Case[TimedIteration]:
    workload = parts.workload

    def setup() -> TimedIteration:
        learner, length = parts.learner(target), problem.trajectory_length
        acting = _acting(problem, learner, parts)
        rollout = Rollout(
            **{
                name: column.reshape(length, -1, *column.shape[1:])
                for name, column in acting.collect(length).items()
            }
        )
        runtime = empty_iterations(workload, cast(PPO, learner.algorithm), problem)
        iteration = TimedIteration(learner, acting, rollout, runtime, 1, 1)
        dealt = iteration.dealt(profiled_start(workload).columns)
        iteration.gradient_steps = _fitting(problem.iteration_gradient_steps, lambda: iteration.learn(dealt))
        # Processes are asked once for all steps of an iteration.
        iteration.vector_steps = length if problem.actor_processes else _fitting(length, iteration.collect)
        return iteration

    def check(iteration: TimedIteration) -> None:
        check_collect(iteration.acting.collect)
        _check_prepared(iteration)
        check_step(workload, iteration.learner, next(iteration.dealt(profiled_start(workload).columns)))

    return Case(
        name=f"iteration of learner {target}",
        setup=setup,
        check=check,
        inputs=lambda iteration, rng: None,
        call=lambda iteration, _: iteration.run(),
        close=TimedIteration.close,
        parts=TimedIteration.taken,
    )


def _fitting(most: int, call: Callable[[], object]) -> int:
    """Return how many calls take `PART_S`, at least 1 and at most `most`; the fastest of a few counts."""
    least_s = inf
    for _ in range(min(most, 5)):
        start_s = perf_counter()
        call()
        least_s = min(least_s, perf_counter() - start_s)
    return min(most, max(1, ceil(PART_S / least_s)))


def _check_prepared(iteration: TimedIteration) -> None:
    """Check that the samples are the rollout's own, and that advantage plus value is the value's target."""
    algorithm, parameters, rollout = iteration.algorithm, iteration.learner.parameters(), iteration.rollout
    samples = algorithm.prepare(parameters, rollout)
    expect_equal(samples["action"], rollout.action.reshape(samples["action"].shape), "actions")
    value = algorithm.values(parameters, samples["observation"])
    np.testing.assert_allclose(
        samples["value_target"] - samples["advantage"], value, rtol=1e-3, atol=1e-3, err_msg="values"
    )
