"""Intervals and verdicts from raw samples, on machines whose noise is one-sided and drifts.

Timings are not normally distributed: a disturbance can make one much slower, nothing makes one much faster. So a
timing is summarised by its median, and two timings are compared by the ratio of the means of their faster
halves, with 95% bootstrap intervals. With 30 or more pairs, these intervals have 95% coverage under five
kinds of noise; intervals of a ratio of quartiles have 97%.

Samples may have been corrected to full core speed along a slope that has an error (`Samples`, made by
`harness.measure.full_speed`). Each resample of the bootstrap then also draws this error, so that the interval
includes it. Corrected samples err in both directions, so two of them are compared by the ratio of their medians.

Consecutive samples may share a disturbance. If neighbouring samples are on the same side of the median more often
than chance explains, they count as fewer independent samples, and the interval is wider.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from placerl.primitives.interrupts import whole_imports

CONFIDENCE = 0.95
FEWEST_SAMPLES = 5
"""Fewest samples of an interval."""
FEWEST_IN_ORDER = 15
"""Fewest samples for which the agreement of neighbours can be distinguished from chance."""
FEWEST_PAIRS = 15
"""Fewest pairs of a comparison with a verdict. With these, a difference of 5% is found if the noise is small (95th
percentile up to 1.1 x median). With noise of 1.3 x median, 45 pairs find 4 of 5 such differences. False alarms stay
at 5% or below."""
PAIRS = 45
"""The usual number of pairs of a comparison."""
MOST_SAMPLES = 5000
"""Most samples that are resampled. Of more, such as the returns of a training's episodes, evenly spaced ones are
used: resampling a million would take minutes and gigabytes. The interval is that of the samples used.
"""
_RESAMPLES = 2000
_SEED = 0  # the same samples give the same interval

Statistic = Callable[..., Any]


@dataclass(frozen=True)
class Samples:
    """Samples, which may have been corrected to full core speed along a slope that has an error.

    Attributes:
        values: (n,) the samples, after the correction.
        exposure: (n,) magnitude of the change of the log of each sample per unit of the slope; zeros if nothing was
            corrected.
        slope_error: standard error of the slope.
    """

    values: npt.NDArray[np.float64]
    exposure: npt.NDArray[np.float64]
    slope_error: float = 0.0

    def __len__(self) -> int:
        return len(self.values)

    @property
    def moved(self) -> bool:
        """Return whether any sample was corrected to full core speed."""
        return bool(np.any(self.exposure))

    def taken(self, places: ArrayLike) -> "Samples":
        """Return only the samples at the given positions, in the order of the positions."""
        chosen = np.asarray(places, int)
        return Samples(self.values[chosen], self.exposure[chosen], self.slope_error)

    @property
    def width(self) -> float:
        """Return the approximate width of the median's 95% interval, as a fraction of the median."""
        if len(self) < FEWEST_SAMPLES:
            return float("inf")
        moved = 2 * 1.96 * self.slope_error * float(np.median(self.exposure))
        return float(np.hypot(relative_width(self.values), moved))


Data = ArrayLike | Samples


def _samples(data: Data) -> Samples:
    if isinstance(data, Samples):
        return data
    values = np.asarray(data, float)
    return Samples(values, np.zeros(values.shape))


def lower_quartile(samples: ArrayLike, axis: int = -1) -> Any:
    """Return the 25th percentile of the samples.

    It is typical of times with little disturbance, while a minimum is a single lucky sample.
    """
    return np.quantile(np.asarray(samples), 0.25, axis=axis)


def faster_half(samples: ArrayLike, axis: int = -1) -> Any:
    """Return the mean of the smaller half of the samples, including the middle one."""
    array = np.asarray(samples)
    half = (array.shape[axis] + 1) // 2
    return np.take(np.partition(array, half - 1, axis=axis), np.arange(half), axis=axis).mean(axis=axis)


def _ratio_of_faster_halves(a: ArrayLike, b: ArrayLike, axis: int = -1) -> Any:
    return faster_half(a, axis) / faster_half(b, axis)


def _ratio_of_medians(a: ArrayLike, b: ArrayLike, axis: int = -1) -> Any:
    return _median_quantile(a, axis) / _median_quantile(b, axis)


def _median_quantile(samples: ArrayLike, axis: int) -> Any:
    """Return what `np.quantile` returns for 0.5; of few samples, as of a timing, in a fraction of the time."""
    low, high = _middle(samples, axis)
    return high - (high - low) * 0.5


def median(samples: ArrayLike, axis: int = -1) -> Any:
    """Return what `np.median` returns; of few samples, as of a timing, in a fraction of the time."""
    low, high = _middle(samples, axis)
    return (low + high) / 2


def _middle(samples: ArrayLike, axis: int) -> tuple[Any, Any]:
    """Return the two middle samples in ascending order; if their number is odd, the middle one twice."""
    ordered = np.sort(np.asarray(samples, float), axis=axis)
    count = ordered.shape[axis]
    return np.take(ordered, (count - 1) // 2, axis=axis), np.take(ordered, count // 2, axis=axis)


def _bootstrap(data: tuple[Samples, ...], statistic: Statistic, *, paired: bool) -> tuple[float, float]:
    """Return the interval of a statistic of each series; moved samples must be paired or a single series."""
    with whole_imports():  # takes half a second, which processes that compute no interval are spared
        from scipy.stats import bootstrap

    some = [one.taken(evenly_spread(len(one), MOST_SAMPLES)) for one in data]
    arrays = [one.values for one in some]
    if any(one.slope_error for one in data):
        arrays += [one.exposure for one in some]
    errors = np.random.default_rng((_SEED, 1))

    def moved(*arrays: npt.NDArray[np.float64], axis: int = -1) -> Any:
        """Return the statistic of resampled values; each resample draws its own slopes."""
        values, exposures = arrays[: len(data)], arrays[len(data) :]
        if exposures:
            shape = (*values[0].shape[:-1], 1)
            values = tuple(
                value * np.exp(errors.normal(0.0, one.slope_error, shape) * exposure)
                for one, value, exposure in zip(data, values, exposures, strict=True)
            )
        return statistic(*values, axis=axis)

    result = bootstrap(
        tuple(arrays),
        moved,
        paired=paired or len(arrays) > len(data),
        vectorized=True,
        n_resamples=_RESAMPLES,
        batch=_RESAMPLES // 4,
        confidence_level=CONFIDENCE,
        method="percentile",  # the corrected kinds fail on the ties that clocks and medians produce
        rng=np.random.default_rng(_SEED),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def evenly_spread(count: int, most: int) -> npt.NDArray[np.int64]:
    """Return at most `most` of the integers 0 to `count` - 1, evenly spaced, with the first and the last.

    All are returned if `count` is not larger than `most`.
    """
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)


def interval(samples: Data, statistic: Statistic = median, *, in_order: bool = False) -> tuple[float, float]:
    """Return the 95% bootstrap interval of a statistic.

    Args:
        samples: (n,) finite numbers, n at least `FEWEST_SAMPLES`; a subset is used above `MOST_SAMPLES`.
        statistic: function such as `np.median` that takes an array and the argument `axis`.
        in_order: whether the samples were taken one after another, so that disturbances shared by neighbours widen the
            interval.

    Returns:
        Lower and upper bound, in the unit of the samples.

    Raises:
        ValueError: there are too few samples, or one is not finite.
    """
    checked = _checked("samples", samples, FEWEST_SAMPLES)
    low, high = _bootstrap((checked,), statistic, paired=False)
    if not in_order:
        return low, high
    array = checked.values
    value, stretch = float(statistic(array)), _stretch(array)
    # A median is between the smallest and largest sample, whatever neighbours share.
    bounds = (
        max(min(low, float(array.min())), value - stretch * (value - low)),
        min(max(high, float(array.max())), value + stretch * (high - value)),
    )
    return min(bounds), max(bounds)  # of equal samples, rounding may exchange them by their last bit


def relative_width(samples: ArrayLike) -> float:
    """Return the approximate width of the median's 95% interval, as a fraction of the median.

    It is found from the ranks of the samples, in microseconds, while the bootstrap of `interval` takes longer.

    Args:
        samples: (n,) positive times in the order in which they were taken. With fewer than `FEWEST_SAMPLES` the width
            is infinite.
    """
    array = np.asarray(samples, float)
    if array.size < FEWEST_SAMPLES:
        return float("inf")
    ordered, reach = np.sort(array), 0.98 * np.sqrt(array.size) * _stretch(array)
    if not (middle := float(np.median(ordered))):
        return 0.0 if ordered[-1] == ordered[0] else float("inf")
    low = max(0, int(np.floor(array.size / 2 - reach)))
    high = min(array.size - 1, int(np.ceil(array.size / 2 + reach)) - 1)
    return float((ordered[high] - ordered[low]) / middle)


def ratio_width(a: Samples, b: Samples) -> float:
    """Return the approximate width of the 95% interval of the ratio of two paired series, as a fraction of the ratio.

    Args:
        a, b: (n,) positive times, taken in the same rounds.
    """
    ratios = Samples(a.values / b.values, a.exposure, 0.0)
    slopes = [2 * 1.96 * one.slope_error * float(np.median(one.exposure)) for one in (a, b) if len(one)]
    return math.hypot(ratios.width, *slopes)


def _stretch(series: npt.NDArray[np.float64]) -> float:
    """Return by what factor an interval is wider than that of as many independent samples, at least 1.

    n signs about the median whose neighbours correlate with r are worth n (1 - r) / (1 + r) independent signs. r
    counts only above the value that chance exceeds in 1 of 20 series. It stays below 1, as a median has samples
    on both sides.
    """
    if series.size < FEWEST_IN_ORDER:
        return 1.0
    signs = np.sign(series - np.median(series))
    correlation = float(np.mean(signs[1:] * signs[:-1]))
    if correlation * np.sqrt(series.size) < 1.645:
        return 1.0
    return float(np.sqrt((1 + correlation) / (1 - correlation)))


def _checked(name: str, data: Data, fewest: int) -> Samples:
    samples = _samples(data)
    array = samples.values
    if array.ndim != 1 or array.size < fewest or not np.isfinite(array).all():
        found = f"shape {array.shape}{'' if np.isfinite(array).all() else ', not all finite'}"
        raise ValueError(f"{name}: found {found}; allowed: (n,) finite numbers, n at least {fewest}")
    return samples


@dataclass(frozen=True)
class Ratio:
    """The ratio of the time of A to that of B, with its 95% interval.

    Attributes:
        value: the ratio; below 1 if A is faster.
        low, high: bounds of the interval.
    """

    value: float
    low: float
    high: float

    @property
    def differs(self) -> bool:
        """Return whether the interval excludes 1, so that A and B take different times."""
        return self.low > 1 or self.high < 1


@dataclass(frozen=True)
class Comparison:
    """The result of comparing the times of A and B.

    Attributes:
        ratio: time of A over time of B; None without enough pairs.
        null: the same ratio for A against a second copy of A, measured in the same rounds, which shows the noise; None
            if it was not measured.
        second: time of the second copy of A over time of B; None if that copy was not measured.
        verdict: "faster" (A takes less time than B), "slower", or "no verdict".
        reason: why there is no verdict; empty otherwise.
        pairs: rounds in which both were measured.
    """

    ratio: Ratio | None
    null: Ratio | None
    verdict: Literal["faster", "slower", "no verdict"]
    reason: str
    pairs: int
    second: Ratio | None = None

    @property
    def reach(self) -> float:
        """Return the factor, at least 1, by which two timings of A may differ: a difference from B must be larger.

        It is 1 if A was not measured a second time, or if the interval of the ratio of the two (`null`) contains 1.
        """
        if self.null is None or not self.null.differs:
            return 1.0
        return max(self.null.high, 1 / self.null.low)


def paired_ratio(a: Data, b: Data) -> Ratio:
    """Return the ratio of two series of times that were taken in the same rounds, with its 95% interval.

    It is the ratio of the means of the faster halves, or of the medians if samples were corrected to full core speed.
    The bootstrap draws pairs, not samples of each series.

    Args:
        a: (n,) positive times; element i was measured in the same round as element i of `b`, within about a
            second.
        b: (n,) positive times.

    Raises:
        ValueError: there are fewer than `FEWEST_SAMPLES` pairs, shapes differ, or times are not positive.
    """
    ours, theirs = _checked("a", a, FEWEST_SAMPLES), _checked("b", b, FEWEST_SAMPLES)
    a_s, b_s = ours.values, theirs.values
    if a_s.shape != b_s.shape or min(a_s.min(), b_s.min()) <= 0:
        found = f"shapes {a_s.shape}, {b_s.shape}, smallest {min(a_s.min(), b_s.min())}"
        raise ValueError(f"a, b: found {found}; allowed: the same number of positive times")
    statistic = _ratio_of_medians if ours.moved or theirs.moved else _ratio_of_faster_halves
    low, high = _bootstrap((ours, theirs), statistic, paired=True)
    value, stretch = float(statistic(a_s, b_s)), _stretch(np.log(a_s / b_s))
    return Ratio(value, value * (low / value) ** stretch, value * (high / value) ** stretch)


def ratio_interval(a: ArrayLike, b: ArrayLike) -> tuple[float, float]:
    """Return the 95% bootstrap interval of median(a) / median(b), for samples that were not taken together.

    Args:
        a: (n,) positive numbers, n at least `FEWEST_SAMPLES`.
        b: (m,) positive numbers.

    Raises:
        ValueError: there are too few samples, or not all are positive and finite.
    """
    both = _checked("a", a, FEWEST_SAMPLES), _checked("b", b, FEWEST_SAMPLES)
    if (least := min(float(one.values.min()) for one in both)) <= 0:
        raise ValueError(f"a, b: found {least}; allowed: positive numbers")
    return _bootstrap(both, _ratio_of_medians, paired=False)


def compare(
    a: Sequence[float] | Samples, b: Sequence[float] | Samples, null: Sequence[float] | Samples | None = None
) -> Comparison:
    """Decide whether A takes less time than B, from times in the same rounds.

    There is no verdict with fewer than `FEWEST_PAIRS` pairs, or if the interval of the ratio contains 1. A can be
    measured twice in each round. Then both series of A must differ from B in the same direction, which leaves one
    false alarm in about 100 comparisons. If the two series of A differ from each other (their memory is placed
    differently, or the machine changed its speed), a difference from B counts only if it is larger (`reach`).

    Args:
        a: (n,) times of A, in interleaved rounds with those of B.
        null: (n,) times of a second A in the same rounds.

    Raises:
        ValueError: lengths differ, or times are not positive and finite.
    """
    pairs = len(a)
    if pairs < FEWEST_PAIRS:
        reason = f"{pairs} pairs, where {FEWEST_PAIRS} are the fewest"
        return Comparison(None, None, "no verdict", reason, pairs)
    ratio = paired_ratio(a, b)
    itself = None if null is None else paired_ratio(a, null)
    reason = f"the interval of the ratio, {ratio.low:.3f} to {ratio.high:.3f}, holds 1"
    second = None if null is None else paired_ratio(null, b)
    both = (ratio,) if second is None else (ratio, second)
    unsure = Comparison(ratio, itself, "no verdict", reason, pairs, second)
    if ratio.high < 1 / unsure.reach and all(one.high < 1 for one in both):
        return replace(unsure, verdict="faster", reason="")
    if ratio.low > unsure.reach and all(one.low > 1 for one in both):
        return replace(unsure, verdict="slower", reason="")
    if ratio.differs and unsure.reach > 1:
        reason = f"it differs from itself by up to {unsure.reach:.3f}x, which the ratio does not exceed"
        return replace(unsure, reason=reason)
    if ratio.differs and second is not None:
        reason = (
            f"the interval of the second ratio, {second.low:.3f} to {second.high:.3f}, does not confirm it"
        )
        return replace(unsure, reason=reason)
    return unsure
