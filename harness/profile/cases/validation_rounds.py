"""Benchmark cases that only `placerl validate` times: calls in the runtime's other loops, and on a simulated FPGA."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from placerl.harness.core.provenance import Provenance
from placerl.harness.loop.schedule import Fusion, Schedule
from placerl.harness.mapping import Mapping, Problem, Target
from placerl.harness.mapping.target import CPU
from placerl.harness.measure.protocol import Case
from placerl.harness.pieces.base import PrimitiveCase
from placerl.harness.pieces.learners import learner_targets
from placerl.harness.pieces.storage import storing_devices
from placerl.harness.profile.cases.round_checks import check_steps
from placerl.harness.profile.cases.rounds import (
    NATIVE,
    Sequences,
    Variant,
    actor_for,
    at_storage,
    beside_learner,
    beside_replay,
)
from placerl.harness.profile.cases.runtime_rounds import empty_training
from placerl.harness.profile.cases.shared_parts import SharedParts, managers
from placerl.harness.runtime import simulated_parts
from placerl.harness.runtime.actors.actor import Actor
from placerl.harness.runtime.actors.in_process import Actors, InlineActors
from placerl.harness.runtime.fusions import fusions
from placerl.harness.runtime.training import Training
from placerl.harness.runtime.units.shared_arrays import SharedArrays
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import columns_of
from placerl.primitives import learner, sum_tree
from placerl.primitives.learner import Learner
from placerl.primitives.learner.relaxed import RelaxedSteps
from placerl.primitives.quantization.precision import FLOAT_32, IN_FLOATS
from placerl.primitives.replay import ConcurrentReplay

FPGA = Target("fpga")
SIMULATED = {"round.learn", "round.insert", "round.sample", "round.update", "overlapped_round.insert"}


class Publishing(InlineActors):
    """One actor that takes turns with the learner, and also copies the learner's weights to shared memory.

    Weights are handed to actors in other processes by such a copy; here only the time of the copy is of interest.
    """

    def __init__(self, actor: Actor, learner: Learner) -> None:
        super().__init__(actor, learner)
        self._shared = SharedArrays.like(learner.policy_parameters())

    def publish(self) -> None:
        """Copy the learner's weights to the shared memory."""
        self._shared.fill(self._learner.policy_parameters())


def fpga_unavailable_reason() -> str:
    """Return the reason why the FPGA cannot be simulated here; empty if it can."""
    statuses = (*learner.backends(), *sum_tree.backends())
    return next((status.reason for status in statuses if status.name == FPGA.backend and status.reason), "")


def validation_cases(
    workload: Workload, problem: Problem, parts: SharedParts, precisions: Sequence[str] = (FLOAT_32,)
) -> Iterator[PrimitiveCase]:
    """Yield the benchmark cases whose times predict training in the strict, overlapped and relaxed loops.

    Cases of a simulated FPGA are included if it can be simulated here. `ComposedLoop` predicts from the times.

    Args:
        workload: off-policy, with a prioritised replay that fits the memory several times.
    """
    sequences = Sequences(workload, problem, parts)
    rows, batch = problem.round_vector_steps * problem.actors, problem.batch_size
    case = sequences.case("strict round native", NATIVE, NATIVE, Variant(Fusion.NONE))
    yield PrimitiveCase("strict_round.insert", NATIVE, rows, case, "insert")
    yield PrimitiveCase("strict_round.sample", NATIVE, batch, case, "sample")
    yield PrimitiveCase("strict_round.update", NATIVE, batch, case, "update")
    yield PrimitiveCase("strict_round.gather", CPU, batch, case, "gather")
    yield PrimitiveCase("strict_round.collect", NATIVE, rows, case, "collect")
    yield PrimitiveCase("strict_round.learn", NATIVE, batch, case, "learn")
    yield from _overlapped(sequences, parts, rows, precisions)
    for target in learner_targets(precisions):
        if target.precision in IN_FLOATS and Fusion.STEP in fusions(
            workload, Mapping(target, NATIVE, CPU), 0
        ):
            relaxed = relaxed_case(workload, problem, parts, target)
            for part in ("sample", "learn", "update") if target == NATIVE else ("learn",):
                yield PrimitiveCase(f"relaxed_round.{part}", target, batch, relaxed, part)
    yield PrimitiveCase("relaxed_round.runtime", CPU, 1, threaded_runtime_case(workload, problem))
    if not fpga_unavailable_reason():
        yield from _simulated(sequences, rows, batch)


def threaded_runtime_case(workload: Workload, problem: Problem) -> Case[Training]:
    """Return the benchmark case of the relaxed loop's runtime: the replay manager is a Python thread.

    All parts do nothing, so a call takes the time to hand their work to the thread and to get the answers.

    Args:
        workload: off-policy.
    """

    def check(training: Training) -> None:
        before = training.gradient_steps
        training.take(problem.round_gradient_steps)
        if training.gradient_steps != before + problem.round_gradient_steps:
            raise AssertionError(
                f"gradient steps: found {training.gradient_steps - before}; expected one round's"
            )

    return Case(
        name="relaxed runtime",
        setup=lambda: empty_training(
            workload,
            problem,
            Fusion.NONE,
            Schedule(presampled_batches=problem.ahead, replay_beside=True),
        ),
        check=check,
        inputs=lambda training, rng: None,
        call=lambda training, _: training.take(problem.round_gradient_steps),
        close=Training.close,
    )


@dataclass
class RelaxedRound:
    """Gradient steps of a learner and a replay manager that are in separate threads but take turns (D = 0).

    Each of the two is thus timed alone, but on data that the other's core has written, as in the relaxed loop.

    Attributes:
        steps: the gradient steps.
        rng: source of the random numbers of sampling.
        before_s: seconds of each term of `steps` at the last call of `taken`.
    """

    steps: RelaxedSteps
    rng: np.random.Generator
    before_s: dict[str, float]
    gradient_steps: int

    def run(self) -> None:
        """Take the gradient steps of one iteration, and wait for their end."""
        self.steps.run(self.gradient_steps, self.rng)
        self.steps.drain()

    def taken(self) -> dict[str, float]:
        """Return the seconds of the parts "sample", "learn" and "update" since the last call of this method, by name.

        They are divided by the gradient steps of one call of `run`: after one such call, they are seconds per
        gradient step.
        """
        before_s, self.before_s = self.before_s, self.steps.terms_s
        parts = {"sample": "sample", "learn": "learner", "update": "update"}
        return {
            part: (self.before_s[term] - before_s[term]) / self.gradient_steps for part, term in parts.items()
        }


def relaxed_case(
    workload: Workload, problem: Problem, parts: SharedParts, target: Target = NATIVE
) -> Case[RelaxedRound]:
    """Return the benchmark case of gradient steps with the native learner and the native replay manager in two threads.

    Args:
        workload: off-policy, with a prioritised replay that fits the memory several times.
    """

    def setup() -> RelaxedRound:
        replay = cast(ConcurrentReplay, parts.replay(NATIVE))
        steps = RelaxedSteps(replay, parts.learner(target), 0)
        rng, count = np.random.default_rng(2), problem.overlapped_gradient_steps
        return RelaxedRound(steps, rng, steps.terms_s, count)

    def check(relaxed: RelaxedRound) -> None:
        check_steps(workload, parts.replay(NATIVE), parts.learner(target), relaxed.steps)

    return Case(
        name=f"relaxed round {target}",
        setup=setup,
        check=check,
        inputs=lambda relaxed, rng: None,
        call=lambda relaxed, _: relaxed.run(),
        parts=RelaxedRound.taken,
    )


def _overlapped(
    sequences: Sequences, parts: SharedParts, rows: int, precisions: Sequence[str]
) -> Iterator[PrimitiveCase]:
    """Yield an iteration whose actors are requested and awaited, so that each unit is timed alone."""
    workload, problem = sequences.workload, sequences.problem
    rounds = problem.overlapped_rounds()
    for target in learner_targets(precisions):
        if Fusion.STEP not in fusions(workload, Mapping(target, NATIVE, CPU), 0):
            continue

        def acting(_: Learner, target: Target = target) -> Actors:
            return parts.actors(target)

        variant = Variant(Fusion.STEP, rounds, overlapped=True, acting=acting)
        case = sequences.case(f"overlapped round {target}", target, NATIVE, variant)
        yield PrimitiveCase("overlapped_round.publish", target, 1, case, "publish")
        yield PrimitiveCase("overlapped_round.steps", target, problem.batch_size, case, "steps")
        beside = sequences.case(
            f"overlapped round {target} while the actors act", target, NATIVE, replace(variant, beside=True)
        )
        yield PrimitiveCase("beside_actors.steps", target, problem.batch_size, beside, "steps")
        yield PrimitiveCase("beside_actors.request", target, 1, beside, "request")
        yield PrimitiveCase("beside_actors.receive", target, rounds * rows, beside, "receive")
        if target == NATIVE:
            yield PrimitiveCase("overlapped_round.collect", CPU, rounds * rows, case, "collect")
            yield PrimitiveCase("overlapped_round.insert", NATIVE, rounds * rows, case, "insert")
        elif target.precision not in IN_FLOATS:  # whose actors compute in fixed point
            yield PrimitiveCase("overlapped_round.collect", target, rounds * rows, case, "collect")
    inserting = Variant(rounds=rounds, gradient_steps=1, overlapped=True)
    for manager in managers(workload):
        if manager != NATIVE:
            case = sequences.case(f"overlapped round of replay {manager}", NATIVE, manager, inserting)
            yield PrimitiveCase("overlapped_round.insert", manager, rounds * rows, case, "insert")
    for storage in storing_devices():
        trainee, *_ = [*at_storage(learner_targets(), storage), NATIVE]
        for manager in managers(workload):
            name = f"overlapped round of {trainee}-{manager}-{storage}"
            case = sequences.case(name, trainee, manager, replace(inserting, storage=storage))
            primitive = f"{storage}_overlapped_round.insert"
            yield PrimitiveCase(primitive, manager, rounds * rows, case, "insert")
    publishing = Variant(
        acting=lambda trainee: Publishing(
            actor_for(workload, problem.round_vector_steps, columns_of(workload)), trainee
        )
    )
    for target in learner_targets(precisions):
        if Fusion.STEP not in fusions(workload, Mapping(target, NATIVE, CPU), 0):
            case = sequences.case(f"publishing round of learner {target}", target, NATIVE, publishing)
            yield PrimitiveCase("overlapped_round.publish", target, 1, case, "publish")


def _simulated(sequences: Sequences, rows: int, batch: int) -> Iterator[PrimitiveCase]:
    case = sequences.case("round of learner fpga", FPGA, NATIVE)
    yield PrimitiveCase("round.collect", FPGA, rows, case, "collect")
    yield PrimitiveCase("round.learn", FPGA, batch, case, "learn")
    yield from beside_learner(FPGA, case, rows, batch)
    case = sequences.case("round of replay fpga", NATIVE, FPGA)
    yield PrimitiveCase("round.insert", FPGA, rows, case, "insert")
    yield PrimitiveCase("round.sample", FPGA, batch, case, "sample")
    yield PrimitiveCase("round.gather", CPU, batch, case, "gather")
    yield PrimitiveCase("round.write", CPU, rows, case, "write")
    yield PrimitiveCase("round.update", FPGA, batch, case, "update")
    yield from beside_replay(FPGA, case, rows, batch)
    case = sequences.case("round of learner and replay fpga", FPGA, FPGA)
    yield PrimitiveCase("simulated_round.collect", FPGA, rows, case, "collect")
    yield PrimitiveCase("simulated_round.gather", CPU, batch, case, "gather")
    yield PrimitiveCase("simulated_round.write", CPU, rows, case, "write")
    yield PrimitiveCase("simulated_round.runtime", CPU, 1, case, "runtime")
    rounds = sequences.problem.overlapped_rounds(simulated=True)
    overlapped = Variant(rounds=rounds, gradient_steps=1, overlapped=True)
    case = sequences.case("overlapped round of learner fpga", FPGA, NATIVE, overlapped)
    yield PrimitiveCase("overlapped_round.collect", FPGA, rounds * rows, case, "collect")
    case = sequences.case("overlapped round of replay fpga", NATIVE, FPGA, overlapped)
    yield PrimitiveCase("overlapped_round.insert", FPGA, rounds * rows, case, "insert")
    yield PrimitiveCase("overlapped_round.write", CPU, rounds * rows, case, "write")


def provenance_of(item: PrimitiveCase) -> Provenance:
    """Return the provenance of a benchmark case's seconds: measured, unless they come from a simulated FPGA."""
    if item.target != FPGA or item.primitive not in SIMULATED:
        return Provenance.MEASURED
    of = simulated_parts.of_learner if item.primitive == "round.learn" else simulated_parts.of_rmm
    return of(item.target)
