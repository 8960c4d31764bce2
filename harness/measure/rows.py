"""Makes rows, in which the store keeps measurements, from samples and from ratios of times; pairs rows of times."""

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import numpy as np

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.measure import protocol, statistics
from placerl.harness.measure.protocol import timing_status
from placerl.harness.measure.statistics import Ratio, Samples
from placerl.harness.measure.timed_case import NO_SAMPLES, Timing

R = TypeVar("R", bound=Row)


def summary_row(kind: type[R], samples: Sequence[float], *, whole: float = 0.0, **fields: Any) -> R:
    """Return a row of the store, a measurement, whose value is the samples' median, with its 95% interval.

    The row's status is "too_noisy" if the interval is wider than `timed_case.NOISE_LIMIT` of the median; that of a
    part only if the interval is also wider than `timed_case.PART_LIMIT` of the whole.

    Args:
        samples: one or more, in the row's unit, in the order in which they were taken. Fewer than
            `statistics.FEWEST_SAMPLES` have no interval, and their row is "too_noisy".
        whole: for a part, the value of all parts together, in the row's unit; 0 if it is not a part.
    """
    value, fewest = float(np.median(samples)), statistics.FEWEST_SAMPLES
    low, high = None, None
    status: Literal["ok", "too_noisy"] = "too_noisy"
    reason = f"{len(samples)} samples, where {fewest} are the fewest"
    if len(samples) >= fewest:
        low, high = statistics.interval(samples, in_order=True)
        status, reason = timing_status(value, low, high, whole=whole)
    return kind(
        **fields,
        provenance=Provenance.MEASURED,
        status=status,
        reason=reason,
        value=value,
        low=low,
        high=high,
        samples=tuple(samples),
    )


def ratio(kind: type[R], times: Ratio, **fields: Any) -> R:
    """Return a row of the store, a measurement, whose value is a ratio of times, with its interval."""
    measured = Provenance.MEASURED
    return kind(**fields, provenance=measured, value=times.value, low=times.low, high=times.high)


def gain(kind: type[R], times: Ratio, **fields: Any) -> R:
    """Return a row of the store, a measurement, whose value is a ratio of throughputs, with its interval.

    Args:
        times: the ratio of the times, of which the ratio of throughputs is the inverse.
    """
    return ratio(kind, Ratio(1 / times.value, 1 / times.high, 1 / times.low), **fields)


def paired(*rows: Any) -> list[Samples]:
    """Return the samples of several rows of times, only from rounds in which every row has a sample.

    A row may not say which rounds its samples are from (`Timing.stored`). Then nothing shows that samples at the same
    position are from the same round. Rows of equal length are paired by position all the same: samples of different
    rounds share no disturbances, so that the interval of their ratio is rather too wide than too narrow. Rows of
    unequal length are not paired, because cutting the longer ones would compare different stretches of time.

    Args:
        rows: measurements of times, or some of `harness.papers.evidence.records`, measured in the same rounds.

    Returns:
        The samples of each row, all of the same length: those at the same position belong to the same round. There
        are none if the rows cannot be paired.
    """
    timings = [Timing.stored(row) for row in rows]
    if all(timing.rounds or not len(timing.samples) for timing in timings):
        return protocol.paired(*timings)
    if len({len(timing.samples) for timing in timings}) > 1:
        return [NO_SAMPLES for _ in timings]
    return [timing.samples for timing in timings]
