"""The throughput of a mapping: the calls of a round, scheduled in the order in which the runtime makes them."""

from collections.abc import Mapping as MappingABC

from placerl.harness.loop.clock import ACTORS, HOST, RMM, STORAGE
from placerl.harness.loop.given_time import LINK, Call
from placerl.harness.loop.schedule import IN_PARALLEL, Loop
from placerl.harness.mapping.base import Platform, Prediction
from placerl.harness.mapping.problem import Problem
from placerl.harness.mapping.scheduled_round import ScheduledRound
from placerl.harness.mapping.strategies.composed_loop.busy_cores import BusyCores, busiest_s, least_s
from placerl.harness.mapping.strategies.composed_loop.lookup import JOINT, is_simulated
from placerl.harness.mapping.strategies.composed_loop.pieces import (
    COPIES,
    ComposedRound,
    concurrent_round,
    in_turn_round,
    on_policy_round,
    overlapped_round,
    resident_round,
)
from placerl.harness.mapping.strategies.composed_loop.simulated_devices import with_simulated
from placerl.harness.mapping.table import PerformanceTable, inputs_provenance
from placerl.harness.mapping.target import Mapping

NAMES = {
    Loop.FUSED: "composed-loop",
    Loop.STRICT: "strict-loop",
    Loop.OVERLAPPED: "overlapped-loop",
    Loop.RELAXED: "relaxed-loop",
    Loop.CONCURRENT: "concurrent-loop",
    Loop.RESIDENT: "resident-loop",
}


class ComposedLoop:
    """A performance model of one of the runtime's training loops, composed from the measured times of the loop's calls.

    Args:
        loop: the loop, an order of calls, whose throughput is predicted.
    """

    def __init__(self, loop: Loop = Loop.FUSED) -> None:
        self.name = NAMES[loop]
        self.loop = loop

    def predict(
        self, table: PerformanceTable, problem: Problem, platform: Platform, mapping: Mapping
    ) -> Prediction:
        """Return the predicted throughput of a mapping.

        Raises:
            KeyError: the table lacks a piece of the round.
        """
        composed = self._composed(table, problem, mapping)
        simulated = with_simulated(composed, table, problem, platform, mapping)
        seconds = _seconds(simulated, table)
        shared = self.loop in IN_PARALLEL and simulated is composed  # virtual time has no cores
        busy = BusyCores.of(table, mapping) if shared and platform.cpu_cores > 1 else None
        if busy:
            busy.slow_down(seconds)
        if self.loop is Loop.CONCURRENT:
            round_s = busiest_s(seconds, platform.cpu_cores, problem.actors)
        else:
            ahead = problem.ahead if self.loop is Loop.RELAXED else 0
            round_s = self._round(simulated, table, seconds, ahead).period_s
        if shared:
            round_s = max(round_s, least_s(seconds, platform.cpu_cores, threads=composed.manager == RMM))
        cells = tuple(dict.fromkeys((*simulated.cells, *(busy.cells if busy else ()))))
        return Prediction(
            mapping=mapping,
            model=self.name,
            gps=composed.gradient_steps / round_s,
            terms_s={term: value / composed.gradient_steps for term, value in seconds.items()},
            cells=cells,
            inputs=inputs_provenance(table, cells),
        )

    def _composed(self, table: PerformanceTable, problem: Problem, mapping: Mapping) -> ComposedRound:
        if problem.on_policy:
            return on_policy_round(table, problem, mapping)
        if self.loop is Loop.CONCURRENT:
            return concurrent_round(problem, mapping)
        if self.loop is Loop.RESIDENT:
            return resident_round(problem, mapping)
        if self.loop in IN_PARALLEL:
            return overlapped_round(table, problem, mapping, relaxed=self.loop is Loop.RELAXED)
        return in_turn_round(table, problem, mapping, apart=self.loop is Loop.STRICT)

    def _round(
        self, composed: ComposedRound, table: PerformanceTable, seconds: MappingABC[str, float], ahead: int
    ) -> ScheduledRound:
        overlapped, learn = self.loop in IN_PARALLEL, "step" if "step" in seconds else "learner"
        times = 1 if learn == "step" else composed.gradient_steps

        def call(term: str, unit: str = HOST, times: int = 1) -> Call:
            if term in composed.calls and is_simulated(table, *composed.calls[term][0]):
                unit = composed.calls[term][0][1].device
            return Call(unit, seconds.get(term, 0.0) / times)

        return ScheduledRound(
            act=call("actor", ACTORS if overlapped else HOST),
            insert=call("insert"),
            sample=call("sample" if "sample" in seconds else JOINT, composed.manager, times),
            gather=call("gather", STORAGE, times),
            write=call("write", STORAGE),
            learn=call(learn, times=times),
            update=call("update", composed.manager, times),
            gradient_steps=times,
            publish=call("publish", LINK if "publish" in composed.transfers_s else HOST),
            host_s=sum(seconds.get(term, 0.0) for term in ("loop", "prepare")),
            overlapped=overlapped,
            ahead=ahead,
        )


def _seconds(composed: ComposedRound, table: PerformanceTable) -> dict[str, float]:
    """Return the seconds of a round by term; those of transfers alone where a simulated device's memory is used."""
    seconds = {term: composed.seconds(table, term) for term in composed.calls}
    if COPIES in seconds:
        seconds["insert"] += seconds.pop(COPIES)
    moved_s = composed.transfers_s
    if "gather" in moved_s and "gather" not in seconds:
        seconds["gather"] = composed.gradient_steps * moved_s["gather"]
    return seconds | {term: moved_s[term] for term in ("write", "publish") if term in moved_s}
