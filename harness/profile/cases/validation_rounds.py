"""What a validation times beside the profile's pieces: those of the runtime's other loops, and of a simulated FPGA."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from harness.core.provenance import Provenance
from harness.mapping import Problem, Target
from harness.profile.cases.base import CPU, PrimitiveCase
from harness.profile.cases.learners import LATE, learner_targets
from harness.profile.cases.rounds import NATIVE, Sequences, beside_learner, beside_replay
from harness.profile.cases.shared_parts import SharedParts
from harness.profile.cases.training import LateActors
from harness.runtime import time_provenance
from harness.runtime.actors.in_process import Transitions
from harness.runtime.actors.pool import ActorPool
from harness.runtime.compose import Fusion, actors_of
from harness.runtime.units.shared_arrays import SharedArrays
from harness.workloads import Workload
from harness.workloads.task import columns_of
from primitives import learner, sum_tree
from primitives.learner import Learner
from primitives.quantization.precision import FLOAT_32

FPGA = Target("fpga")
SIMULATED = {"round.learn", "round.insert", "round.sample", "round.update", "overlapped_round.insert"}


class PoolActor:
    """An actor in a process, asked for its vector steps and waited for.

    Args:
        workload: whose environments are stepped.
        vector_steps: most in a call.
        learner: whose weights it acts on.
    """

    def __init__(self, workload: Workload, vector_steps: int, learner: Learner) -> None:
        environment_seed, exploration_seed = np.random.SeedSequence(0).spawn(2)
        plan = actors_of(workload, environment_seed, exploration_seed, columns_of(workload), vector_steps)
        self.pool = ActorPool(LateActors(**vars(plan)), learner, 1)
        self.pool.environment_steps = LATE

    def collect(self, steps: int, policy: Any) -> Transitions:
        """As `Actor.collect`; the pool has its own policy, on the learner's weights."""
        return self.pool.collect(steps)

    def close(self) -> None:
        """End the process."""
        self.pool.close()


def fpga_unavailable_reason() -> str:
    """Why no FPGA can be simulated here; empty when it can."""
    statuses = (*learner.backends(), *sum_tree.backends())
    return next((status.reason for status in statuses if status.name == FPGA.backend and status.reason), "")


def validation_cases(
    workload: Workload, problem: Problem, parts: SharedParts, precisions: Sequence[str] = (FLOAT_32,)
) -> Iterator[PrimitiveCase]:
    """The pieces that `ComposedLoop` takes for the strict and the overlapped loop, and those of the FPGA.

    Args:
        workload: off-policy, with a prioritised replay that fits the memory several times.
        problem: what the models know of the workload.
        parts: learners and replays, shared with other cases.
    """
    made = Sequences(workload, problem, parts)
    rows, batch = problem.round_vector_steps * problem.actors, problem.batch_size
    case = made.case("strict round native", NATIVE, NATIVE, fusion=Fusion.NONE)
    yield PrimitiveCase("strict_round.insert", NATIVE, rows, case, "insert")
    yield PrimitiveCase("strict_round.sample", NATIVE, batch, case, "sample")
    yield PrimitiveCase("strict_round.update", NATIVE, batch, case, "update")
    yield from _overlapped(made, parts, rows, precisions)
    if not fpga_unavailable_reason():
        yield from _simulated(made, rows, batch)


def _overlapped(
    made: Sequences, parts: SharedParts, rows: int, precisions: Sequence[str]
) -> Iterator[PrimitiveCase]:
    """An iteration whose actors are asked and waited for: each unit's time alone."""
    workload, problem = made.workload, made.problem
    rounds = problem.overlapped_rounds()
    steps = rounds * problem.round_vector_steps
    case = made.case(
        "overlapped round native",
        NATIVE,
        NATIVE,
        fusion=Fusion.STEP,
        rounds=rounds,
        actor=lambda trainee: PoolActor(workload, max(2, steps), trainee),
        publish=lambda actor, _: actor.pool.publish,
    )
    yield PrimitiveCase("overlapped_round.collect", CPU, rounds * rows, case, "collect")
    yield PrimitiveCase("overlapped_round.insert", NATIVE, rounds * rows, case, "insert")
    yield PrimitiveCase("overlapped_round.publish", NATIVE, 1, case, "publish")
    yield PrimitiveCase("overlapped_round.steps", NATIVE, problem.batch_size, case, "steps")
    for target in learner_targets(precisions):
        if target != NATIVE:
            case = made.case(f"publishing round of learner {target}", target, NATIVE, publish=_into_memory)
            yield PrimitiveCase("overlapped_round.publish", target, 1, case, "publish")


def _into_memory(_: Any, trainee: Learner) -> Callable[[], None]:
    shared = SharedArrays.like(trainee.parameters())
    return lambda: shared.fill(trainee.parameters())


def _simulated(made: Sequences, rows: int, batch: int) -> Iterator[PrimitiveCase]:
    case = made.case("round of learner fpga", FPGA, NATIVE)
    yield PrimitiveCase("round.collect", FPGA, rows, case, "collect")
    yield PrimitiveCase("round.learn", FPGA, batch, case, "learn")
    yield from beside_learner(FPGA, case, rows, batch)
    case = made.case("round of replay fpga", NATIVE, FPGA)
    yield PrimitiveCase("round.insert", FPGA, rows, case, "insert")
    yield PrimitiveCase("round.sample", FPGA, batch, case, "sample")
    yield PrimitiveCase("round.gather", CPU, batch, case, "gather")
    yield PrimitiveCase("round.write", CPU, rows, case, "write")
    yield PrimitiveCase("round.update", FPGA, batch, case, "update")
    yield from beside_replay(FPGA, case, rows, batch)
    rounds = made.problem.overlapped_rounds(simulated=True)
    case = made.case("overlapped round of learner fpga", FPGA, NATIVE, rounds=rounds, gradient_steps=1)
    yield PrimitiveCase("overlapped_round.collect", FPGA, rounds * rows, case, "collect")
    case = made.case("overlapped round of replay fpga", NATIVE, FPGA, rounds=rounds, gradient_steps=1)
    yield PrimitiveCase("overlapped_round.insert", FPGA, rounds * rows, case, "insert")
    yield PrimitiveCase("overlapped_round.write", CPU, rounds * rows, case, "write")


def provenance_of(item: PrimitiveCase) -> Provenance:
    """Return the provenance of a case's seconds: on the FPGA those of some parts are the device's own."""
    if item.target != FPGA or item.primitive not in SIMULATED:
        return Provenance.MEASURED
    of = time_provenance.of_learner if item.primitive == "round.learn" else time_provenance.of_rmm
    return of(item.target)
