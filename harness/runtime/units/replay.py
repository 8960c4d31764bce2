"""A thread that runs replay management and storage in parallel with the learner (MAP Table II, PRL 3.2)."""

from collections import deque
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, Generic

from placerl.harness.loop.clock import NO_INPUTS, RMM, Output, Value
from placerl.harness.loop.real_time import RealTime
from placerl.harness.runtime.units.unit import Unit


class _Asked(Output[Value], Generic[Value]):
    """A request to the unit; its value waits for the answer."""

    def __init__(self, wait: Callable[["_Asked[Any]"], None]) -> None:
        super().__init__(None, 0.0)  # type: ignore[arg-type]
        self._wait = wait
        self.there = False

    @property
    def value(self) -> Value:
        """Return the result of the call; UnitError if it raised."""
        if not self.there:
            self._wait(self)
        return self._value


class TimeBeside(RealTime):
    """The wall clock of a training whose replay management and storage run in parallel with the learner.

    One thread serves the calls of both in the order in which they were made, so the training is the same as without the
    thread. Parallel work saves time only while it releases the GIL, and only if batches are sampled ahead, so that it
    can begin early. The term "wait" holds the seconds for which the host waits for the thread. The seconds of the
    thread's work are counted too, so that all terms (parts of the loop) together may exceed the wall time.

    Args:
        depth: most calls that may wait for the thread, and most answers that may wait for the host.
    """

    def __init__(self, depth: int) -> None:
        super().__init__()
        self._unit: Unit[Callable[[], Any], Any] = Unit("replay manager", lambda work: work(), depth)
        self._depth = depth
        self._waiting: deque[_Asked[Any]] = deque()

    def call(
        self,
        unit: str,
        term: str,
        work: Callable[[], Value],
        after_s: float = 0.0,
        input_bytes: Mapping[str, int] = NO_INPUTS,
    ) -> Output[Value]:
        """Give work of the replay management to the thread, and make every other call at once.

        Args:
            unit: the unit that does the work; only the replay management has the thread.
            term: name of the part of the loop that the seconds are added to.
            work: function to call.
            after_s, input_bytes: ignored, because calls are made as soon as possible.

        Returns:
            The result. If the thread does the work, reading the `value` of the result waits for the answer.
        """
        if unit != RMM:
            return super().call(unit, term, work, after_s, input_bytes)

        def timed() -> Value:
            start_s = perf_counter()
            value = work()
            self.terms_s[term] += perf_counter() - start_s
            return value

        if len(self._waiting) == self._depth:  # otherwise both sides might wait for room
            self._take_one()
        self._unit.submit(timed)
        asked: _Asked[Value] = _Asked(self._wait)
        self._waiting.append(asked)
        return asked

    def drain(self) -> None:
        """Wait until the thread has answered every call."""
        while self._waiting:
            self._take_one()

    def bind(self, core: int) -> None:
        """Bind the thread to a core."""
        self._unit.bind(core)

    def close(self) -> None:
        """End the thread."""
        self._unit.close()

    def _wait(self, asked: _Asked[Any]) -> None:
        while not asked.there:
            self._take_one()

    def _take_one(self) -> None:
        asked, start_s = self._waiting[0], perf_counter()
        asked._value = self._unit.result()  # if it fails, it waits on, and says so whenever it is read
        self._waiting.popleft()
        self.terms_s["wait"] += perf_counter() - start_s
        asked.there = True
