"""At which speed a core ran while a piece of work was timed, read from a calibration kernel next to the piece.

A core of a shared machine runs at full speed or, while its hardware is shared, at 55 to 65% of it, by turns that last
from tenths of a millisecond to seconds. A fixed kernel of about 5 us that is timed right before and right after a piece
shows which speed the core had. What is made of the readings stands in `harness.measure.full_speed`. Where other
processes want the core too, the kernel's scheduler states how long a thread waited for one.
"""

import os
import resource
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

FULL_QUANTILE = 0.1
"""Of a run's readings: what the kernel takes at full speed. A tenth of the run must have been at full speed."""

_LEAD_IN, _KERNEL = range(50), range(500)
_THREAD = threading.local()
Clock = Callable[[], float]


class Pace(NamedTuple):
    """How fast the core was.

    Attributes:
        reading_s: mean of the kernel's readings before and after, seconds; 0 where none was read, because the work
            ran elsewhere.
        interrupted: whether the scheduler took the core away in between.
        waited_s: seconds that the thread waited for a core meanwhile; 0 where the system does not state them.
    """

    reading_s: float = 0.0
    interrupted: bool = False
    waited_s: float = 0.0


class Piece(NamedTuple):
    """One stretch of timed work.

    Attributes:
        seconds: that it took.
        calls: that it made; a part that occurs k times a call makes 1/k.
        pace: of the core meanwhile.
    """

    seconds: float
    calls: float
    pace: Pace = Pace()


def _waited_s() -> float:
    """Seconds that this thread has waited for a core, ready to run; 0 where the system does not state them."""
    if not hasattr(_THREAD, "schedstat"):
        try:
            _THREAD.schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            _THREAD.schedstat = None
    if _THREAD.schedstat is None:
        return 0.0
    return 1e-9 * int(os.pread(_THREAD.schedstat, 64, 0).split()[1])


def _switches() -> int:
    """How often the scheduler has taken the core away from this thread."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


class Bracket:
    """Reads the kernel between pieces.

    Args:
        clock: seconds. On another than the wall's, what the scheduler does counts only where it is given.
        kernel: the same work at every call.
        switches: how often the scheduler has taken the core away from this thread.
        waited: seconds that this thread has waited for a core.
    """

    def __init__(
        self,
        clock: Clock = time.perf_counter,
        kernel: Callable[[], object] = lambda: sum(_KERNEL),
        switches: Callable[[], int] | None = None,
        waited: Callable[[], float] | None = None,
    ) -> None:
        real = clock is time.perf_counter
        self._clock, self._kernel = clock, kernel
        self._switches = switches or (_switches if real else lambda: 0)
        self._waited = waited or (_waited_s if real else lambda: 0.0)
        self._reading_s: float
        self._before: int
        self._waited_s: float

    def open(self) -> None:
        """Read the kernel before the first piece."""
        self._begin(self._read())

    def skip(self) -> None:
        """Leave out of the next piece what the scheduler did since the last reading."""
        self._begin(self._reading_s)

    def close(self) -> Pace:
        """The pace of the piece since the last reading; this reading also stands before the next piece."""
        interrupted, waited_s = self._switches() != self._before, self._waited() - self._waited_s
        after_s = self._read()
        pace = Pace((self._reading_s + after_s) / 2, interrupted, waited_s)
        self._begin(after_s)
        return pace

    def _begin(self, reading_s: float) -> None:
        self._reading_s, self._before, self._waited_s = reading_s, self._switches(), self._waited()

    def _read(self) -> float:
        """The faster of two runs: an interrupt hits one of them."""
        sum(_LEAD_IN)  # the code of the kernel may have left the caches
        start_s = self._clock()
        self._kernel()
        middle_s = self._clock()
        self._kernel()
        return min(middle_s - start_s, self._clock() - middle_s)


@dataclass
class Readings:
    """The readings of one run, over all of its cases."""

    seconds: list[float] = field(default_factory=list)

    def add(self, pieces: Iterable[Piece]) -> None:
        """Note the readings of pieces; those without one say nothing."""
        self.seconds += [piece.pace.reading_s for piece in pieces if piece.pace.reading_s > 0]

    @property
    def full_s(self) -> float:
        """What the kernel takes at full speed, seconds; 0 without readings."""
        return float(np.quantile(self.seconds, FULL_QUANTILE)) if self.seconds else 0.0
