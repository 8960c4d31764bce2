"""A clock for the training loop that times each call of a round, and how fast the core runs at that moment."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from time import perf_counter
from typing import Any

from typing_extensions import override

from placerl.harness.loop.clock import NO_INPUTS, Clock, Output, Value
from placerl.harness.loop.real_time import Begun
from placerl.harness.measure.pace import Bracket, Pace, Piece

PARTS = {"act": "collect", "learner": "learn", "step": "steps"}
"""Names of parts in the profile that differ from the loop's terms, by term."""
_CHARGED = ("gather", "write")
"""Parts inside other calls; the storage adds up their seconds itself."""
PIECE_S = 1e-3
"""Least length of the calls between two readings of the core's pace, seconds.

A reading makes system calls, after which the next calls are slower. On a Xeon, CartPole's native mapping was predicted
31% too slow with readings around every call, and 19 to 22% with this length.
"""
_READING = "reading"
_NO_DEVICES: Mapping[str, Callable[[], float]] = {}


def _nothing() -> None: ...


class Recorder(Clock):
    """Runs each call of `harness.loop.training_loop.TrainingLoop` at once, and records its seconds and the core's pace.

    The pace is the speed of the core at that moment, measured by the calibration kernel of `harness.measure.pace`
    before and after groups of calls that take `PIECE_S`. Work that another unit would do in parallel is also run and
    awaited at once, so that a part's seconds are those of the part alone.

    Args:
        device_clocks: for each part on a simulated device, a function that returns the device's seconds so far. All
            other parts are timed by the host's clock.
        sweep: empties the caches before each part, or None.
        beside: whether work of units that run in parallel with the host is only waited for when its result is needed.
            The parts in between are then timed while it goes on, and it is timed no longer.
        elsewhere: parts that a device computes (`Case.elsewhere`).

    Attributes:
        only: the part that is timed; the others are called without being timed. None: all parts are timed.
        occurrences: seconds and pace of each call since the last call of `taken`, by part. The pace of the calls
            since the last reading is still unknown.
    """

    def __init__(
        self,
        device_clocks: Mapping[str, Callable[[], float]] = _NO_DEVICES,
        sweep: Callable[[], None] | None = None,
        *,
        beside: bool = False,
        elsewhere: Collection[str] = (),
    ) -> None:
        self._clocks, self._sweep, self._beside = dict(device_clocks), sweep, beside
        self.only: str | None = None
        self.occurrences: defaultdict[str, list[tuple[float, Pace]]] = defaultdict(list)
        self._bracket, self._rounds = Bracket(), 0
        self._open = False
        self._unread: list[tuple[str, int]] = []  # part and position of the calls since the last reading
        self._unread_s = 0.0
        self._asked = set(elsewhere)  # parts in which other processes or devices work
        self._clock_s = float("inf")  # of one reading of the clock

    def open(self, rounds: int = 1) -> None:
        """Begin one or several rounds: measure how long one reading of the clock takes.

        Args:
            rounds: number of rounds in which each part is timed until the next call.
        """
        self._rounds += rounds
        if not self._open:
            self._bracket.open()
            self._open = True
        self.timed(_READING, _nothing)

    def timed(self, part: str, work: Callable[..., Value], *arguments: Any) -> Value:
        """Run one part of a round, record its seconds and the core's pace (speed), and return its result.

        Args:
            part: name of the part, such as "learn".
            work: function to call with `arguments`.
        """
        if self.only is not None and part not in (self.only, _READING):
            return work(*arguments)
        clock = self._clocks.get(part, perf_counter)
        if self._sweep:
            self._sweep()
            self._bracket.skip()
        begin_s = clock()
        result = work(*arguments)
        seconds = clock() - begin_s
        # A simulated device's seconds do not depend on the core.
        self._add(part, seconds, on_core=clock is perf_counter)
        if self._sweep or self._unread_s >= PIECE_S:
            self._read()
        return result

    def _add(self, part: str, seconds: float, *, on_core: bool = True) -> None:
        occurrences = self.occurrences[part]
        if on_core:
            self._unread.append((part, len(occurrences)))
            self._unread_s += seconds
        occurrences.append((seconds, Pace()))

    def _read(self) -> None:
        """Measure the core's pace, and record it with the calls since the last reading."""
        pace, unread = self._bracket.close(), self._unread
        self._unread, self._unread_s = [], 0.0
        # If the thread waited for a core, it did so in the longest call, or in one that was not timed. What it asked of
        # others may run on its own core, so that a wait for them is no disturbance.
        apart = {*_CHARGED, *self._asked}
        whole = [at for at in unread if at[0] not in apart and self._seconds(at) >= pace.waited_s]
        longest = None if self._beside else max(whole, key=self._seconds, default=None)
        for part, place in unread:
            waited_s = pace.waited_s if (part, place) == longest else 0.0
            seconds = self._seconds((part, place))
            self.occurrences[part][place] = seconds, pace._replace(waited_s=waited_s)

    def _seconds(self, at: tuple[str, int]) -> float:
        part, place = at
        return self.occurrences[part][place][0]

    def taken(self) -> dict[str, list[Piece]]:
        """Return the timed calls (pieces) of each part of the round since the last call of this method, by part.

        The time of one reading of the clock is subtracted from each piece.
        """
        if self._open:
            self._read()
        self._open = False
        by_part, self.occurrences = self.occurrences, defaultdict(list)
        rounds, self._rounds = self._rounds, 0
        readings_s = [seconds for seconds, _ in by_part.pop(_READING, [])]
        # The minimum so far: a reading that the scheduler interrupts takes milliseconds.
        self._clock_s = reading_s = min([self._clock_s, *readings_s])
        pieces = {}
        for part, occurrences in by_part.items():
            calls = rounds / len(occurrences)
            less_s = 0.0 if part in _CHARGED or part in self._clocks else reading_s
            pieces[part] = [Piece(seconds - less_s, calls, pace) for seconds, pace in occurrences]
        return pieces

    @override
    def now_s(self) -> float:
        return perf_counter()

    @override
    def wait(self, ready_s: float) -> None:
        # Every call has already ended when the host would wait for it.
        pass

    @override
    def run(self, term: str, work: Callable[..., Value], *arguments: Any) -> Value:
        return self.timed(PARTS.get(term, term), work, *arguments)

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
        return Output(self.run(term, work), 0.0)

    @override
    def begin(
        self, unit: str, term: str, ask: Callable[[], object], answer: Callable[[], Value]
    ) -> Output[Value]:
        # Work that another unit would do in parallel is awaited at once, so that it is timed alone. With `beside` it is
        # awaited when it is read: "request" and "receive" are the host's seconds to start it, and to wait and read.
        if self._beside:
            self.timed("request", ask)
            return Begun(lambda: self.timed("receive", answer))

        self._asked.add(PARTS.get(term, term))

        def alone() -> Value:
            ask()
            return answer()

        return Output(self.run(term, alone), 0.0)

    @override
    def charge(
        self,
        server: str,
        term: str,
        seconds: float,
        after_s: float,
        input_bytes: Mapping[str, int] = NO_INPUTS,
    ) -> float:
        # The work was part of the last call, at that call's core speed. Its seconds are without those for which it
        # waited for a core (`TimedStorage`).
        part = PARTS.get(term, term)
        if self.only in (None, part):
            self._add(part, seconds)
        return after_s

    @override
    def deliver(
        self, unit: str, term: str, work: Callable[[], object], output_bytes: int, after_s: float
    ) -> None:
        if output_bytes:
            self.run(term, work)
        else:
            work()
