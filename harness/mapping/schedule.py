"""Predicts when the calls of a training loop take place: one after another on the host, in parallel on other units.

The loop itself (`harness.mapping.loop`) defines the order of the calls and which call waits for which. Here it runs
under a clock that adds up given seconds. A call on the host makes the host wait, first for its inputs and then for
its end. A call on another unit (a simulated device, actors in a process) starts when it has been made, its inputs
are ready and the unit is free. If all calls are on the host, a round takes the sum of its calls.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from placerl.harness.mapping.loop import (
    ACTORS,
    HOST,
    NO_INPUTS,
    RMM,
    STORAGE,
    Made,
    Shape,
    Traffic,
    TrainingLoop,
    Value,
)
from placerl.harness.mapping.nothing import Nothing

__all__ = ["ACTORS", "HOST", "LINK", "RMM", "STORAGE", "Call", "GivenTime", "ScheduledRound"]

LINK = "link"
_SETTLED, _COUNTED = 8, 8
"""Rounds until the schedule repeats itself, and rounds that are then averaged."""


class Call(NamedTuple):
    """One call of a round: where it runs, and how long it takes.

    Attributes:
        unit: the unit that does it, such as `HOST`.
        seconds: its seconds there.
    """

    unit: str
    seconds: float


NOTHING = Call(HOST, 0.0)


@dataclass(frozen=True)
class ScheduledRound:
    """The calls of a round, each with the unit that makes it (the host, a device, ...) and its seconds.

    A round has some vector steps (steps of all environments together) and the gradient steps that belong to them.

    Attributes:
        act: the vector steps.
        insert: insertion of their transitions.
        write: writing them into a storage separate from the replay management; the actors overwrite their
            transitions only after it.
        sample, gather, learn, update: the calls of each gradient step.
        gradient_steps: number of gradient steps.
        publish: handing the learner's weights to the actors, if that takes time.
        host_s: seconds of the loop itself and of the host's other work in a round.
        overlapped: whether a round's gradient steps begin before its vector steps have ended.
        ahead: D, batches sampled ahead.
    """

    act: Call
    insert: Call
    learn: Call
    sample: Call = NOTHING
    gather: Call = NOTHING
    write: Call = NOTHING
    update: Call = NOTHING
    gradient_steps: int = 1
    publish: Call = NOTHING
    host_s: float = 0.0
    overlapped: bool = False
    ahead: int = 0

    @property
    def period_s(self) -> float:
        """Return the seconds from one round to the next in the steady state."""
        return _period_s(self)


@lru_cache(maxsize=4096)
def _period_s(made: ScheduledRound) -> float:
    """Return `ScheduledRound.period_s`. Strategies predict the same mappings again for every choice."""
    terms = ("act", "insert", "sample", "gather", "write", "update", "publish")
    clock = GivenTime({"learner": made.learn} | {term: getattr(made, term) for term in terms})
    shape = Shape(gradient_steps=made.gradient_steps, overlapped=made.overlapped, ahead=made.ahead)
    loop = TrainingLoop(clock, Nothing().units, shape, Traffic(storage_apart=True))
    ends_s = []
    # The batches sampled ahead are there before the first round; what waits behind them shows later.
    settled = _SETTLED + -(-made.ahead // made.gradient_steps)
    for _ in range(settled + _COUNTED):
        loop.round()
        clock.wait(clock.now_s() + made.host_s)
        ends_s.append(clock.now_s())
    return (ends_s[-1] - ends_s[settled - 1]) / _COUNTED


class GivenTime:
    """A clock that adds up given seconds: it tracks the host's time, and when every other unit is free.

    It ignores the units, inputs and seconds that the loop passes. Instead, `calls` gives the unit and the seconds of
    each term (part of the loop), including those of links. It has the methods of `harness.mapping.loop.Clock`.

    Args:
        calls: the call of each term; a missing call, or one of 0 seconds, ends when its inputs are ready.
    """

    def __init__(self, calls: Mapping[str, Call]) -> None:
        self._calls = calls
        self._now_s = 0.0
        self._free_s: defaultdict[str, float] = defaultdict(float)

    def now_s(self) -> float:
        """Return the host's time, in seconds since the clock was made."""
        return self._now_s

    def wait(self, ready_s: float) -> None:
        """Move the host's time forward to `ready_s`, unless it is later already."""
        self._now_s = max(self._now_s, ready_s)

    def run(self, term: str, work: Callable[[Any], Value], argument: Any) -> Value:
        """Add the seconds given for `term` to the host's time, and return `work(argument)`; see `Clock.run`.

        Args:
            term: the part of the loop that the call belongs to.
            work: function to call; how long it takes does not matter.
            argument: its argument.
        """
        self.wait(self._end_s(term, 0.0))
        return work(argument)

    def act(self, work: Callable[[int], Value], vector_steps: int) -> Value:
        """Add the seconds given for the term "act" to the host's time, and return `work(vector_steps)`."""
        return self.run("act", work, vector_steps)

    def call(
        self,
        unit: str,
        term: str,
        work: Callable[[], Value],
        after_s: float = 0.0,
        input_bytes: Mapping[str, int] = NO_INPUTS,
    ) -> Made[Value]:
        """Call `work`, and return its result with the time at which it ends by the seconds given for `term`.

        Args:
            unit, input_bytes: ignored; the given seconds include the links.
            term: the part of the loop that the call belongs to.
            work: function to call; how long it takes does not matter.
            after_s: when its inputs are ready, seconds of this clock.
        """
        return Made(work(), self._end_s(term, after_s))

    def begin(
        self, unit: str, term: str, ask: Callable[[], object], answer: Callable[[], Value]
    ) -> Made[Value]:
        """Do work that runs at the same time as the host, and return its result with the time at which it ends.

        Args:
            unit: ignored; the unit is given with the seconds.
            term: the part of the loop whose given seconds the work takes.
            ask, answer: functions that start the work and return its result; both are called at once.
        """
        ask()
        return Made(answer(), self._end_s(term, 0.0))

    def charge(
        self,
        server: str,
        term: str,
        seconds: float,
        after_s: float,
        input_bytes: Mapping[str, int] = NO_INPUTS,
    ) -> float:
        """Return when work ends that was done inside another unit's call; see `Clock.charge`.

        Args:
            server, seconds, input_bytes: ignored; the unit and the seconds are given.
            term: the part of the loop whose given seconds the work takes.
            after_s: earliest start of the work, seconds of this clock.
        """
        return self._end_s(term, after_s)

    def deliver(
        self, unit: str, term: str, work: Callable[[], object], output_bytes: int, after_s: float
    ) -> None:
        """Call `work`, and make the host wait for the seconds given for `term`; see `Clock.deliver`.

        Args:
            unit, output_bytes: ignored; the given seconds include the link.
            term: the part of the loop that the transfer belongs to.
            work: the host's work to hand over the unit's output.
            after_s: when the output was made, seconds of this clock.
        """
        work()
        self.wait(self._end_s(term, after_s))

    def _end_s(self, term: str, after_s: float) -> float:
        """Do the call of a term whose inputs are ready at `after_s`; returns when it ends."""
        unit, seconds = self._calls.get(term, NOTHING)
        if not seconds:
            return after_s
        if unit == HOST:
            self.wait(after_s)
            self._now_s += seconds
            return self._now_s
        end_s = max(self._now_s, after_s, self._free_s[unit]) + seconds
        self._free_s[unit] = end_s
        return end_s
