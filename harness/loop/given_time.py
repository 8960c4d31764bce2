"""A clock that adds up given seconds: it predicts when the calls of a training loop take place.

A call on the host makes the host wait, first for its inputs and then for its end. A call on another unit (a simulated
device, actors in a process) starts when it has been made, its inputs are ready and the unit is free.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from typing_extensions import override

from placerl.harness.loop.clock import HOST, NO_INPUTS, Clock, Output, Value

LINK = "link"


class Call(NamedTuple):
    """One call of a round: where it runs, and how long it takes.

    Attributes:
        unit: the unit that does it, such as `HOST`.
        seconds: its seconds there.
    """

    unit: str
    seconds: float


NOTHING = Call(HOST, 0.0)


class GivenTime(Clock):
    """A clock that adds up given seconds: it tracks the host's time, and when every other unit is free.

    It ignores the units, inputs and seconds that the loop passes. Instead, `calls` gives the unit and the seconds of
    each term (part of the loop), including those of links.

    Args:
        calls: the call of each term; a missing call, or one of 0 seconds, ends when its inputs are ready.
    """

    def __init__(self, calls: Mapping[str, Call]) -> None:
        self._calls = calls
        self._now_s = 0.0
        self._free_s: defaultdict[str, float] = defaultdict(float)

    @override
    def now_s(self) -> float:
        return self._now_s

    @override
    def wait(self, ready_s: float) -> None:
        self._now_s = max(self._now_s, ready_s)

    @override
    def run(self, term: str, work: Callable[[Any], Value], argument: Any) -> Value:
        self.wait(self._end_s(term, 0.0))
        return work(argument)

    @override
    def act(self, work: Callable[[int], Value], vector_steps: int) -> Value:
        return self.run("act", work, vector_steps)

    @override
    def call(
        self,
        unit: str,
        term: str,
        work: Callable[[], Value],
        after_s: float = 0.0,
        input_bytes: Mapping[str, int] = NO_INPUTS,
    ) -> Output[Value]:
        # How long the work itself takes does not matter, here and below.
        return Output(work(), self._end_s(term, after_s))

    @override
    def begin(
        self, unit: str, term: str, ask: Callable[[], object], answer: Callable[[], Value]
    ) -> Output[Value]:
        ask()
        return Output(answer(), self._end_s(term, 0.0))

    @override
    def charge(
        self,
        server: str,
        term: str,
        seconds: float,
        after_s: float,
        input_bytes: Mapping[str, int] = NO_INPUTS,
    ) -> float:
        return self._end_s(term, after_s)

    @override
    def deliver(
        self, unit: str, term: str, work: Callable[[], object], output_bytes: int, after_s: float
    ) -> None:
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
