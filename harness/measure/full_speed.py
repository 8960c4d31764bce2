"""Estimates how long timed work would have taken if the core had run at full speed.

The calls of a timed function are divided into pieces, and a fixed calibration kernel is timed before and after each
piece (`harness.measure.pace`); its time is the reading. First the time for which a piece's thread waited for a core is
subtracted, unless the work went on elsewhere (`Case.elsewhere`). The slower the core, the longer a piece takes: in
proportion if arithmetic limits it, hardly at all if memory does. So the log of a piece's time grows linearly with the
log of the reading, with a slope that differs from function to function. The slope is estimated from the function's
pieces, and the time of each piece is then corrected along it to the reading at full speed, so that pieces that ran at a
lower speed can be used too. The slope's error widens every interval computed from the samples.

Slopes measured on a half-shared core: a loop in Python 0.9, searches in a sum tree 0.7, matrix products 0.4, a copy
of 4 MB 0.3. If a function ran at one speed only, its slope is taken from this range (`PRIOR`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from placerl.harness.measure.pace import AT_FULL_SPEED, Pace, Piece, waited_s
from placerl.harness.measure.statistics import FEWEST_SAMPLES, Samples

Value = TypeVar("Value")
PRIOR, PRIOR_ERROR = 0.6, 0.3
"""Slope assumed for a case without any information, and its standard deviation."""
SLOWEST = 2.2
"""Readings above this multiple of the reading at full speed were interrupted: no core is that slow."""
LEAST_OWN = 0.05
"""Least share of a piece's seconds that counts as work, however long the scheduler reports that it waited."""
_OUTLYING = 1.5
"""Residuals above this many standard deviations get less weight (Huber's weights)."""
_TURNS = 8
_LEAST_SPREAD = 1e-3

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FullSpeed:
    """The times of a function, corrected to full core speed.

    A block is the calls of the function in one round, and a piece is some calls of a block. The reading of a piece is
    the time of a calibration kernel before and after it, which shows the core's speed.

    Attributes:
        samples: seconds per call of each block that is used, with the slope's uncertainty.
        places: positions of the used blocks among all, ascending. Interrupted pieces are left out, and so are blocks
            with only such pieces, if that leaves at least half of the blocks, and enough for an interval.
        slope: change of the log of a piece's time per change of the log of its reading, used for the correction.
        known: whether the core's speed was read.
        share: fraction of all pieces that ran at full speed, 0 to 1.
        clock_s: seconds per call of every block, as read from the clock.
    """

    samples: Samples
    places: npt.NDArray[np.int64]
    slope: float
    known: bool
    share: float
    clock_s: Array


def at_full_speed(blocks: Sequence[Sequence[Piece]], full_s: float) -> FullSpeed:
    """Estimate the seconds per call at full core speed, for each block of calls that was timed in one round.

    Args:
        blocks: the timed pieces (groups of calls) of each block, in the order of time; at least one each.
        full_s: time of the calibration kernel at full speed, > 0 s; 0 if it is unknown, and then the times are not
            corrected for the core's speed.
    """
    seconds, calls, readings = (
        np.array([get(piece) for pieces in blocks for piece in pieces], float)
        for get in (own_s, lambda p: p.calls, lambda p: p.pace.reading_s)
    )
    whole = np.array([not piece.pace.interrupted for pieces in blocks for piece in pieces])
    block = np.repeat(np.arange(len(blocks)), [len(pieces) for pieces in blocks])
    read = readings > 0
    known = bool(full_s and read.any())
    slower = np.zeros(len(seconds))
    if known:
        slower[read] = np.log(np.clip(readings[read] / full_s, 1.0, SLOWEST))
    share = float(np.mean(slower <= np.log(AT_FULL_SPEED)))
    clock_s = [
        sum(piece.seconds for piece in pieces) / sum(piece.calls for piece in pieces) for pieces in blocks
    ]
    if len(np.unique(block[whole])) >= max(FEWEST_SAMPLES, len(blocks) / 2):
        seconds, calls, slower, block = (one[whole] for one in (seconds, calls, slower, block))
    places, block = np.unique(block, return_inverse=True)
    slope, error = _slope(slower, np.log(np.maximum(seconds, 1e-12) / calls), block) if known else (0.0, 0.0)
    moved_s = seconds * np.exp(-slope * slower)
    total_s, count = _sums(block, moved_s, len(places)), len(places)
    samples = Samples(
        total_s / _sums(block, calls, count),
        _sums(block, moved_s * slower, count) / np.maximum(total_s, 1e-300),
        error,
    )
    return FullSpeed(samples, places, slope, known, share, np.array(clock_s))


def own_s(piece: Piece) -> float:
    """Return the seconds of a timed piece of work without those for which its thread waited for a core."""
    return max(piece.seconds - piece.pace.waited_s, LEAST_OWN * piece.seconds)


def own_time(work: Callable[[], Value]) -> tuple[Value, float]:
    """Call `work`; return its result and its seconds without those for which this thread waited for a core.

    A call is often shorter than the time slice that another process takes from its core.
    """
    before_s, start_s = waited_s(), perf_counter()
    value = work()
    took_s = perf_counter() - start_s
    return value, own_s(Piece(took_s, 1, Pace(waited_s=waited_s() - before_s)))


def _sums(block: npt.NDArray[np.intp], of: Array, count: int) -> Array:
    return np.bincount(block, of, count).astype(np.float64)


def _slope(slower: Array, log_s: Array, block: npt.NDArray[np.intp]) -> tuple[float, float]:
    """Return the slope and its standard error: robust regression, shrunk to the prior where pieces hold little
    information.
    """
    slope, weight = PRIOR, np.ones(len(slower))
    for _ in range(_TURNS):
        aside = slower - np.average(slower, weights=weight)
        residual = log_s - np.average(log_s, weights=weight) - slope * aside
        spread = max(_LEAST_SPREAD, 1.4826 * float(np.median(np.abs(residual - np.median(residual)))))
        prior_weight = (spread / PRIOR_ERROR) ** 2
        information = float(np.sum(weight * aside**2)) + prior_weight
        slope = max(0.0, (float(np.sum(weight * aside * log_s)) + prior_weight * PRIOR) / information)
        residual = log_s - slope * slower
        residual -= np.median(residual)
        weight = np.minimum(1.0, _OUTLYING * spread / np.maximum(np.abs(residual), 1e-12))
    # Pieces of one block may share a disturbance: their errors are added before they are squared.
    shared = np.bincount(block, weight * aside * residual)
    variance = max(spread**2 * information, float(np.sum(shared**2)) + prior_weight * spread**2)
    return slope, float(np.sqrt(variance)) / information
