"""Times the threads of the concurrent loop: each side alone, in its placement and with the ring of batches ahead.

A call lets the learner and its replay manager take gradient steps while the actors rest, and then lets the actors step
the environments while the others rest. So what shares a core in a training is timed apart, and the model
(`mapping.strategies.composed_loop`) adds it up.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from placerl.harness.mapping import Mapping, Problem
from placerl.harness.mapping.target import CPU, NATIVE
from placerl.harness.measure.protocol import Case
from placerl.harness.pieces.base import PrimitiveCase
from placerl.harness.profile.cases.shared_parts import SharedParts
from placerl.harness.profile.cases.training import concurrent
from placerl.harness.runtime.native_threads import ThreadedTraining
from placerl.harness.runtime.resolve import runs_free
from placerl.harness.workloads import Workload

MAPPING = Mapping(NATIVE, NATIVE, CPU)
STRETCHES = 4
"""Gradient steps of a call, in multiples of D: the ring of D batches is filled at its begin and dropped at its end."""
FEWEST_STEPS = 64


@dataclass
class Sides:
    """The two sides of a training in the concurrent loop, which take turns.

    Attributes:
        training: the training.
        problem: the steps of a round.
        gradient_steps: gradient steps of a call, in whole rounds.
        parts_s: seconds of each part since the last call of `taken`: of "collect" a round's, of others a gradient
            step's.
    """

    training: ThreadedTraining
    problem: Problem
    gradient_steps: int
    parts_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def run(self) -> None:
        """Take the gradient steps of a call, and then the environment steps that belong to them."""
        problem, steps = self.problem, self.gradient_steps
        learnt = self.training.learn(steps).terms_s
        self.parts_s["learn"] += (learnt["learner"] + learnt["aggregate"]) / steps
        self.parts_s["sample"] += learnt["sample"] / (steps + problem.ahead)
        self.parts_s["update"] += learnt["update"] / steps
        collected = self.training.collect(steps * problem.update_interval)
        seconds = sum(collected.terms_s[name] for name in ("environment", "infer", "insert"))
        a_round = problem.round_vector_steps * problem.actors
        self.parts_s["collect"] += seconds * a_round / collected.environment_steps

    def taken(self) -> dict[str, float]:
        """Return `parts_s`, and begin again."""
        parts_s, self.parts_s = dict(self.parts_s), defaultdict(float)
        return parts_s


def concurrent_cases(workload: Workload, problem: Problem, parts: SharedParts) -> Iterator[PrimitiveCase]:
    """Yield the benchmark cases of the concurrent loop's threads; none where it cannot run.

    Args:
        workload: a workload whose replay fits the memory.
        parts: learners and replays, shared with other cases.
    """
    if not runs_free(workload, MAPPING, problem.batch_size):
        return
    rows = problem.round_vector_steps * problem.actors
    case: Case[Sides] = Case(
        name="concurrent round",
        setup=partial(_sides, workload, problem, parts),
        check=_check,
        inputs=lambda sides, rng: None,
        call=lambda sides, _: sides.run(),
        parts=Sides.taken,
    )
    for part in ("learn", "sample", "update"):
        yield PrimitiveCase(f"concurrent_round.{part}", NATIVE, problem.batch_size, case, part)
    yield PrimitiveCase("concurrent_round.collect", CPU, rows, case, "collect")


def _sides(workload: Workload, problem: Problem, parts: SharedParts) -> Sides:
    fewest = max(FEWEST_STEPS, STRETCHES * problem.ahead)
    rounds = -(-fewest // problem.round_gradient_steps)
    training = concurrent(workload, problem, MAPPING, parts)
    return Sides(training, problem, rounds * problem.round_gradient_steps)


def _check(sides: Sides) -> None:
    """Check that each side takes its own steps, and that the learner changes its state to finite numbers."""
    before = sides.training.training.state_dict()
    environment_steps = sides.training.environment_steps
    sides.run()
    after = sides.training.training.state_dict()
    if (taken := int(after["gradient_steps"] - before["gradient_steps"])) != sides.gradient_steps:
        raise AssertionError(f"gradient steps: found {taken}; expected {sides.gradient_steps}")
    wanted = sides.gradient_steps * sides.problem.update_interval
    if (stepped := sides.training.environment_steps - environment_steps) < wanted:
        raise AssertionError(f"environment steps: found {stepped}; expected {wanted} at least")
    if not all(np.isfinite(array).all() for array in after.values()):
        raise AssertionError("state: found NaN or infinity; expected finite numbers")
    sides.taken()
