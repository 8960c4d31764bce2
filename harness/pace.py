"""At which speed a core ran while a piece of work was timed, read from a calibration kernel next to the piece.

A core of a shared machine runs at full speed or, while its hardware is shared, at 55 to 65% of it, by turns that last
from tenths of a millisecond to seconds. A fixed kernel of about 11 us that is timed right before and right after a
piece shows which speed the core had. A piece counts as fast when both readings are within `FAST_LIMIT` of the run's
fast readings and the scheduler did not take the core away in between. The rule looks at the readings alone, never at
the time of the piece: of two cases that are compared it cannot prefer one.
"""

import resource
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FAST_LIMIT = 1.15
"""Slowest reading of a fast piece, in fast readings: steps of the clock frequency stay below it, a shared core (1.5
and more) above."""
FAST_QUANTILE = 0.1
"""Of a run's readings: what the kernel takes at full speed. A tenth of the run must have been fast."""
LONGEST_PIECE_S = 10e-3
"""The readings at the ends of a longer piece do not show what happened between them."""

FULL_SPEED = "blocks at full speed"
"""What a row's details say that its samples are, where they are not "all blocks"."""

_LEAD_IN, _KERNEL = range(50), range(1000)
Clock = Callable[[], float]


class Piece(NamedTuple):
    """One stretch of timed work.

    Attributes:
        seconds: that it took.
        calls: that it made; a part that occurs k times a call makes 1/k.
        reading_s: the slower of the kernel's readings before and after; infinite when the scheduler took the core away;
            0 where none was read because the work ran elsewhere, which counts as fast.
    """

    seconds: float
    calls: float
    reading_s: float = 0.0


class Bracket:
    """Reads the kernel between pieces.

    Args:
        clock: seconds.
        kernel: the same work at every call.
        switches: how often the scheduler has taken the core away from this thread.
    """

    def __init__(
        self,
        clock: Clock = time.perf_counter,
        kernel: Callable[[], object] = lambda: sum(_KERNEL),
        switches: Callable[[], int] = lambda: resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw,
    ) -> None:
        self._clock, self._kernel, self._switches = clock, kernel, switches
        self._reading_s, self._before = 0.0, 0

    def open(self) -> None:
        """Read the kernel before the first piece."""
        self._reading_s, self._before = self._read(), self._switches()

    def close(self) -> float:
        """`Piece.reading_s` of the piece since the last reading; this one also stands before the next piece."""
        interrupted = self._switches() != self._before
        after_s = self._read()
        slower_s = float("inf") if interrupted else max(self._reading_s, after_s)
        self._reading_s, self._before = after_s, self._switches()
        return slower_s

    def _read(self) -> float:
        sum(_LEAD_IN)  # the code of the kernel may have left the caches
        start_s = self._clock()
        self._kernel()
        return self._clock() - start_s


@dataclass
class Readings:
    """The readings of one run, over all of its cases."""

    seconds: list[float] = field(default_factory=list)

    def add(self, pieces: Iterable[Piece]) -> None:
        """Note the readings of pieces; those without one say nothing."""
        self.seconds += [piece.reading_s for piece in pieces if 0 < piece.reading_s < float("inf")]

    @property
    def limit_s(self) -> float:
        """The slowest reading of a fast piece, seconds; infinite without readings."""
        if not self.seconds:
            return float("inf")
        return FAST_LIMIT * float(np.quantile(self.seconds, FAST_QUANTILE))


def seconds_per_call(pieces: Sequence[Piece], limit_s: float = float("inf")) -> float:
    """Mean seconds a call over the pieces whose readings are at most `limit_s`; not a number where there is none."""
    kept = [piece for piece in pieces if piece.reading_s <= limit_s]
    calls = sum(piece.calls for piece in kept)
    return sum(piece.seconds for piece in kept) / calls if calls else float("nan")


class Chosen(NamedTuple):
    """The samples of a case that count.

    Attributes:
        samples_s: seconds a call.
        places: of those blocks, in order.
        fast: whether they are those at full speed; otherwise all.
        known: whether the speed was read at all.
        readable: whether it was, and pieces are no longer than `LONGEST_PIECE_S`.
        fast_share: of the blocks, 0 to 1.
        all_s: seconds a call of every block, all of its pieces included.
    """

    samples_s: npt.NDArray[np.float64]
    places: npt.NDArray[np.int64]
    fast: bool
    known: bool
    readable: bool
    fast_share: float
    all_s: npt.NDArray[np.float64]


def choose(blocks: Sequence[Sequence[Piece]], limit_s: float, fewest: int) -> Chosen:
    """Keep the blocks at full speed where they suffice, and all blocks where they do not.

    A block's sample is the mean over its fast pieces. Fast blocks suffice when there are `fewest`; of pieces longer
    than `LONGEST_PIECE_S`, whose readings say less, when they are also half of all.

    Args:
        blocks: pieces of each block, in the order of time; at least one each.
        limit_s: slowest reading of a fast piece.
        fewest: blocks that an interval takes.
    """
    all_s = np.array([seconds_per_call(pieces) for pieces in blocks])
    # Without a limit every piece counts, and so do those that the scheduler interrupted.
    fast_s = np.array([seconds_per_call(pieces, min(limit_s, 1e300)) for pieces in blocks])
    fast = np.isfinite(fast_s)
    longest_s = (
        float(np.median([max(piece.seconds for piece in pieces) for pieces in blocks])) if blocks else 0.0
    )
    known = any(0 < piece.reading_s < float("inf") for pieces in blocks for piece in pieces)
    needed = max(fewest, len(blocks) / 2 if longest_s > LONGEST_PIECE_S else 0)
    enough = known and bool(fast.sum() >= needed)
    places = np.flatnonzero(fast) if enough else np.arange(len(blocks))
    share = float(fast.mean()) if len(blocks) else 0.0
    return Chosen(
        (fast_s if enough else all_s)[places],
        places,
        enough,
        known,
        known and longest_s <= LONGEST_PIECE_S,
        share,
        all_s,
    )
