"""Times the parts of rounds that stay on a device, each in graphs of its own, and the start of a graph.

A round of the resident loop is a part of a graph, which nothing on the host can look into. So vector steps and gradient
steps are started apart, as many as several graphs take, and the device is waited for once. What both of these graphs
take to start, a training's takes once: it is timed with a graph that does next to nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from time import perf_counter

import numpy as np

from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import Schedule
from placerl.harness.mapping import Loop, Problem
from placerl.harness.mapping import Mapping as Placement
from placerl.harness.mapping.target import Target
from placerl.harness.measure.protocol import Case
from placerl.harness.pieces.base import PrimitiveCase, targets
from placerl.harness.runtime import resident
from placerl.harness.runtime.resident_training import ResidentTraining
from placerl.harness.runtime.resolve import Resolved, resolve
from placerl.harness.workloads import Workload
from placerl.primitives import learner
from placerl.primitives.device import Stream
from placerl.primitives.training.resident_rounds import ResidentRounds

ROUNDS = 64
"""Rounds of a call, after each part of which the host waits for the device."""
IN_TURNS = Schedule(presampled_batches=0)
"""The options of the rounds that are timed, whatever a workload samples ahead: the prediction is of these."""


@dataclass
class ResidentParts:
    """The parts of rounds, which take turns.

    Attributes:
        rounds: environments, replay and learner on the device, with items to sample.
        stream: the stream of their work.
        vector_steps, gradient_steps: those of a round.
        parts_s: seconds of a round's parts since the last call of `taken`.
    """

    rounds: ResidentRounds
    stream: Stream
    vector_steps: int
    gradient_steps: int
    parts_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def __post_init__(self) -> None:
        """Record the graph that does next to nothing."""
        word = self.stream.zeros(8)
        with self.stream.recorded() as self._nothing:
            self.stream.clear(word, 8)

    def run(self) -> None:
        """Do the work of `ROUNDS` rounds, part by part."""
        starts = ceil(ROUNDS / self.rounds.rounds_a_graph)
        start_s = self._seconds(partial(self._start, starts)) / starts
        self.parts_s["runtime"] += starts * start_s / ROUNDS
        for part, start in (
            ("collect", partial(self.rounds.explore, ROUNDS * self.vector_steps)),
            ("steps", partial(self.rounds.run, ROUNDS * self.gradient_steps)),
        ):
            before = self.rounds.graphs_started
            part_s = self._seconds(start)
            starts = self.rounds.graphs_started - before
            self.parts_s[part] += (part_s - starts * start_s) / ROUNDS
        self.rounds.drain()

    def _start(self, graphs: int) -> None:
        for _ in range(graphs):
            self._nothing.replay()

    def _seconds(self, start: Callable[[], object]) -> float:
        """Return the seconds for which the device does what is started."""
        begun_s = perf_counter()
        start()
        self.stream.finish()
        return perf_counter() - begun_s

    def taken(self) -> dict[str, float]:
        """Return `parts_s`, and begin again."""
        parts_s, self.parts_s = dict(self.parts_s), defaultdict(float)
        return parts_s


def check(parts: ResidentParts) -> None:
    """Raise AssertionError unless each part takes its own steps, with finite losses."""
    before, losses = parts.rounds.environment_steps, [0.0]
    for _ in range(2):
        parts.run()
        losses.append(next(iter(parts.rounds.losses.values())))
    taken = parts.rounds.environment_steps - before
    if not np.isfinite(losses).all() or len(set(losses)) < len(losses) or taken <= 0:
        raise AssertionError(f"losses: found {losses[1:]}; expected finite ones that change")
    parts.taken()


def case(name: str, setup: Callable[[], ResidentParts]) -> Case[ResidentParts]:
    """Return the benchmark case of the parts of rounds."""
    return Case(
        name=name,
        setup=setup,
        check=check,
        inputs=lambda parts, rng: None,
        call=lambda parts, _: parts.run(),
        parts=ResidentParts.taken,
        elsewhere=True,
    )


def resident_cases(workload: Workload, problem: Problem) -> Iterator[PrimitiveCase]:
    """Yield the benchmark cases of the resident loop's parts; none on a device where it cannot run.

    Args:
        workload: a workload whose replay fits the memory; only a prioritised one's rounds are timed.
    """
    here = [one for one in targets(learner.backends(), "torch") if one.backend in resident.BACKENDS]
    for target in here if workload.replay.prioritized else []:
        mapping = Placement(target, target, Target.parse(target.device))
        try:
            resolved = resolve(IN_TURNS, workload, mapping, problem.batch_size, loop=Loop.RESIDENT)
        except UserError:
            continue

        timed = case(f"resident round of {target}", partial(_parts, resolved, problem))
        rows = problem.round_vector_steps * problem.actors
        yield PrimitiveCase("resident_round.collect", mapping.storage, rows, timed, "collect")
        yield PrimitiveCase("resident_round.steps", target, problem.batch_size, timed, "steps")
        yield PrimitiveCase("resident_round.runtime", mapping.rmm, 1, timed, "runtime")


def _parts(resolved: Resolved, problem: Problem) -> ResidentParts:
    training = ResidentTraining(resolved)
    training.warm_up()
    shape = problem.round_vector_steps, problem.round_gradient_steps
    return ResidentParts(training.rounds, training.replay.stream, *shape)
