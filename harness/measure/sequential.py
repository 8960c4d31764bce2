"""A group-sequential test: decides a statement about returns from as few seeds as it takes, and looks several times.

A statement says on which side of 0 a weighted sum of interquartile means lies, such as that a variant of the training
loop keeps 0.9 of the reference's gain: mean(variant) - 0.9 mean(reference) - 0.1 mean(untrained) > 0. The test looks
after 5, 7, 10, 14 and 20 seeds, and stops at the first look that decides.

Of a true or a false statement, at most a share `ERROR_RATE` is decided wrongly, over all looks together: the rate is
divided evenly among the looks (Bonferroni), which holds whatever the looks share, and is close to Pocock's bounds
(Jennison and Turnbull, "Group Sequential Methods", 2000, chapter 2). At a look, the standard error is that of a
stratified bootstrap over seeds (Agarwal et al. 2021; each series is a stratum), and the bound a quantile of Student's
t: percentiles of so few resampled seeds would be too narrow. `tests/harness/measure/test_sequential.py` checks the
error rates on simulated claims.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

LOOKS = (5, 7, 10, 14, 20)
"""Numbers of seeds after which the test looks; the last one is the most that it uses."""
ERROR_RATE = 0.05
"""Largest share of statements that are decided wrongly."""
_RESAMPLES = 500


@dataclass(frozen=True)
class Decision:
    """What a sequential test says of a statement.

    Attributes:
        above: whether the sum is above 0; None if that is undecided.
        seeds: seeds at the look that decided, or at the last look; 0 before the first.
    """

    above: bool | None
    seeds: int

    @property
    def ended(self) -> bool:
        """Return whether further seeds change nothing: the test has decided, or has looked for the last time."""
        return self.above is not None or self.seeds == LOOKS[-1]


def interquartile_mean(scores: ArrayLike, axis: int = -1) -> Any:
    """Return the mean of the middle half of the scores, without the highest and the lowest quarter.

    It depends less on a single seed than the mean, and varies less from draw to draw than the median.
    """
    return stats.trim_mean(np.asarray(scores), 0.25, axis=axis)


def look_of(position: int) -> int:
    """Return the number of the first look, from 1, that uses a seed.

    Args:
        position: position of the seed among those of the test, from 0, below `LOOKS[-1]`.
    """
    return 1 + next(number for number, seeds in enumerate(LOOKS) if position < seeds)


def decide(weights: Sequence[float], series: Sequence[Sequence[float]], statements: int = 1) -> Decision:
    """Return on which side of 0 the weighted sum of the interquartile means of some series lies.

    The same numbers give the same decision.

    Args:
        series: returns of each series, one per seed, in the order in which the seeds are trained; what exceeds the
            shortest series is left out.
        statements: statements that are decided together, of which none is to be wrong: they share the error rate.
    """
    least, seeds = min(map(len, series)), 0
    for seeds in (look for look in LOOKS if look <= least):
        if (above := _look(weights, [one[:seeds] for one in series], statements)) is not None:
            return Decision(above, seeds)
    return Decision(None, seeds)


def _look(weights: Sequence[float], series: Sequence[Sequence[float]], statements: int) -> bool | None:
    scores, seeds = np.asarray(series, float), len(series[0])
    places = np.random.default_rng((seeds, _RESAMPLES)).integers(0, seeds, (len(series), _RESAMPLES, seeds))
    resampled = interquartile_mean(np.take_along_axis(scores[:, None], places, axis=2))
    # The variance of a resample is (n - 1) / n of that of new seeds.
    error = float(np.std(weights @ resampled, ddof=1)) * (seeds / (seeds - 1)) ** 0.5
    bound = float(stats.t.isf(ERROR_RATE / statements / len(LOOKS) / 2, seeds - 1))
    value = float(np.dot(weights, interquartile_mean(scores)))
    return value > 0 if abs(value) > bound * error else None
