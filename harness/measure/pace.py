"""Measures the speed of a core during a piece of work, with a fixed kernel that is timed before and after the piece.

A core of a shared machine runs at full speed or, while its hardware is shared, at 55 to 65% of it. Each state
lasts from tenths of a millisecond to seconds. The calibration kernel takes about 5 us; its time, the reading, shows
the speed of the core. `harness.measure.full_speed` evaluates the readings. If other processes compete for the core,
the system's scheduler reports how long a thread waited for one.
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
"""Quantile of a run's readings that is taken as full speed, which holds if a tenth of the run was at full speed."""

AT_FULL_SPEED = 1.15
"""Slowest reading that counts as full speed, in multiples of `Readings.full_s`: steps of the clock frequency stay
below it, a shared core (1.5 and more) above.
"""
FEWEST_READINGS = 20
"""Fewest readings of a run whose full speed later runs of the process use as a reference."""

_LEAD_IN, _KERNEL = range(50), range(500)
_THREAD = threading.local()
Cores = tuple[int, ...] | None
_OF_THIS_PROCESS: dict[Cores, float] = {}
Clock = Callable[[], float]


def kernel() -> object:
    """Do the calibration kernel's work once, which takes about 5 us."""
    return sum(_KERNEL)


class Pace(NamedTuple):
    """The speed of the core during a piece of work.

    Attributes:
        reading_s: mean time of the calibration kernel before and after the piece, seconds; 0 if it was not timed,
            because the work ran in another process or on a device.
        interrupted: whether the scheduler took the core away during the piece.
        waited_s: seconds of the piece for which the thread waited for a core; 0 if the system does not report them.
    """

    reading_s: float = 0.0
    interrupted: bool = False
    waited_s: float = 0.0


class Piece(NamedTuple):
    """A piece of work that was timed: some calls of a function, with the speed of the core meanwhile.

    Attributes:
        seconds: duration of the piece.
        pace: speed of the core during the piece.
    """

    seconds: float
    calls: float
    pace: Pace = Pace()


def waited_s() -> float:
    """Return the seconds that this thread has been ready to run but waited for a core; 0 if not reported."""
    if not hasattr(_THREAD, "schedstat"):
        try:
            _THREAD.schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            _THREAD.schedstat = None
    if _THREAD.schedstat is None:
        return 0.0
    return 1e-9 * int(os.pread(_THREAD.schedstat, 64, 0).split()[1])


def _switches() -> int:
    """Return how often the scheduler has taken the core away from this thread."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


class Bracket:
    """Times the calibration kernel between pieces of work, so that each piece has a reading before and after it.

    Args:
        clock: returns seconds. With a clock other than the wall clock, `switches` and `waited` are 0 unless they
            are given.
        kernel: does the same work at every call.
        switches: returns how often the scheduler has taken the core away from this thread.
        waited: returns the seconds that this thread has waited for a core.

    Attributes:
        full_s: the kernel's time at full speed in earlier runs, seconds, by the cores that they were pinned to.
            All objects of a process that use the wall clock share it, because a core may be slow for a whole run.
    """

    def __init__(
        self,
        clock: Clock = time.perf_counter,
        kernel: Callable[[], object] = kernel,
        switches: Callable[[], int] | None = None,
        waited: Callable[[], float] | None = None,
    ) -> None:
        real = clock is time.perf_counter
        self._clock, self._kernel = clock, kernel
        self.full_s = _OF_THIS_PROCESS if real else {}
        self._switches = switches or (_switches if real else lambda: 0)
        self._waited = waited or (waited_s if real else lambda: 0.0)
        self._reading_s: float
        self._before: int
        self._waited_s: float

    def open(self) -> None:
        """Time the calibration kernel before the first piece of work."""
        self._begin(self._read())

    def skip(self) -> None:
        """Begin the next piece of work now, without timing the calibration kernel again.

        Interruptions since the last reading of the kernel do not count for the piece.
        """
        self._begin(self._reading_s)

    def close(self) -> Pace:
        """Time the calibration kernel after a piece of work, and return the core's speed during it.

        The same reading also counts as the one before the next piece.
        """
        interrupted, waited_s = self._switches() != self._before, self._waited() - self._waited_s
        after_s = self._read()
        pace = Pace((self._reading_s + after_s) / 2, interrupted, waited_s)
        self._begin(after_s)
        return pace

    def _begin(self, reading_s: float) -> None:
        self._reading_s, self._before, self._waited_s = reading_s, self._switches(), self._waited()

    def _read(self) -> float:
        """Return the faster of two runs: an interrupt affects only one of them."""
        sum(_LEAD_IN)  # the kernel's code may have left the caches
        start_s = self._clock()
        self._kernel()
        middle_s = self._clock()
        self._kernel()
        return min(middle_s - start_s, self._clock() - middle_s)


@dataclass
class Readings:
    """The readings of the calibration kernel in one run, over all of its cases.

    Attributes:
        seconds: the reading of each piece that has one.
        earlier_s: the kernel's time at full speed in earlier runs on these cores, seconds; 0 if there were none.
    """

    seconds: list[float] = field(default_factory=list)
    earlier_s: float = 0.0

    def add(self, pieces: Iterable[Piece]) -> None:
        """Add the readings (times of the calibration kernel) of pieces of work; those without a reading are ignored."""
        self.seconds += [piece.pace.reading_s for piece in pieces if piece.pace.reading_s > 0]

    @property
    def full_s(self) -> float:
        """Return the calibration kernel's time at full core speed, in seconds; 0 without readings.

        It is a low quantile of this run's readings, or the time of earlier runs if the core was slow for all of this
        one.
        """
        if not self.seconds:
            return 0.0
        own_s = float(np.quantile(self.seconds, FULL_QUANTILE))
        was_slow = self.earlier_s and own_s > AT_FULL_SPEED * self.earlier_s
        return self.earlier_s if was_slow else own_s

    def remember(self, full_s: dict[Cores, float], cores: Cores) -> None:
        """Store the calibration kernel's time at full speed for later runs on the same cores, unless it is uncertain.

        Args:
            full_s: the stored times, seconds, by the cores that the runs were pinned to (`Bracket.full_s`); changed.
            cores: the cores that this run was pinned to; None if it was not pinned.
        """
        if len(self.seconds) >= FEWEST_READINGS:
            full_s[cores] = min(self.full_s, self.earlier_s or self.full_s)
