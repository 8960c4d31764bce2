"""Drops sides, the things that are compared, that are clearly slower than the fastest, from interleaved rounds.

Within a round every side has one sample, so the ratio of two sides in one round is free of what the machine did from
round to round. A side is dropped once the interval of its mean log ratio to the leader, the side with the best median,
excludes that it is as fast. The intervals are those of Student's t. They hold together with `ERROR_RATE`: the rate is
divided among the sides, and among the looks after 1, 2, 3, ... rounds in proportion to 1, 1/4, 1/9, ... So the best
side is dropped in at most this share of races, if the logs of the samples have normal errors.

With few rounds a side's own spread says little. So the variance of a log ratio is estimated from all sides that
are left, less what a round does to all of them, together with a noise that is assumed beforehand (`NOISE`,
`NOISE_ROUNDS`), and a side that is noisier than the others is judged by its own variance.

Successive halving (`harness.measure.halving`) instead drops half of the sides after each heat, by their medians.
"""

from collections.abc import Collection, Iterable, Mapping
from math import pi, sqrt

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student

Rates = Mapping[str, Mapping[int, float]]
"""The rate of each side (higher is better), by its name and by the number of the round; only positive rates."""

ERROR_RATE = 0.05
"""Largest share of races in which the best side is dropped."""
NOISE = 0.25
"""Standard deviation of the log of a sample that is assumed before any is known.

Blocks of 20 ms of trainings on a busy machine with two cores had 0.1 to 0.26 (measured, as half of the squared
difference between two rounds).
"""
NOISE_ROUNDS = 10
"""Degrees of freedom that the assumed noise counts for."""


class Elimination:
    """A race of several sides, which are the things that are compared, over interleaved rounds.

    Args:
        error_rate: largest share of races in which the best side is dropped, above 0 and below 1.

    Attributes:
        left: sides that were not dropped, in the order given.
    """

    def __init__(self, sides: Iterable[str], error_rate: float = ERROR_RATE) -> None:
        self.left = list(sides)
        if not 0 < error_rate < 1:
            raise ValueError(f"error_rate: found {error_rate}; allowed: above 0 and below 1")
        self._error_rate, self._others = error_rate, len(self.left) - 1

    def leader(self, rates: Rates) -> str | None:
        """Return the side that is left and has the best median so far; None if none has a sample."""
        able = [side for side in self.left if rates.get(side)]
        return max(able, key=lambda side: float(np.median(list(rates[side].values()))), default=None)

    def drop(self, rates: Rates) -> set[str]:
        """Drop the sides that are clearly slower than the leader, and return them.

        Each number of rounds may be looked at once. Sides without a sample stay.
        """
        leader = self.leader(rates)
        if leader is None:
            return set()
        variance, freedom = _noise([rates[side] for side in self.left if rates.get(side)])
        slower = {
            side
            for side in self.left
            if side != leader and self._is_slower(rates[leader], rates.get(side, {}), variance, freedom)
        }
        self.left = [side for side in self.left if side not in slower]
        return slower

    def _is_slower(
        self, leader: Mapping[int, float], side: Mapping[int, float], variance: float, freedom: float
    ) -> bool:
        logs = log_ratios(leader, side)
        if not logs.size:
            return False
        looked = 6 / (pi * logs.size) ** 2  # these shares of the error rate add up to 1 over all looks
        quantile = float(student.ppf(1 - self._error_rate * looked / self._others, freedom))
        own = float(np.var(logs, ddof=1)) if logs.size > 1 else 0.0
        return float(logs.mean()) > quantile * sqrt(max(2 * variance, own) / logs.size)


def log_ratios(leader: Mapping[int, float], side: Mapping[int, float]) -> npt.NDArray[np.float64]:
    """Return the logs of leader / side in the rounds that both took part in, (n,).

    Args:
        leader, side: positive rates by round.
    """
    shared = sorted(set(leader) & set(side))
    return np.log([leader[number] / side[number] for number in shared]) if shared else np.zeros(0)


def _noise(sides: Collection[Mapping[int, float]]) -> tuple[float, float]:
    """Return the variance of the log of one sample, without what a round does to all sides, and its degrees of freedom.

    Only rounds in which all sides took part count.
    """
    shared = sorted(set.intersection(*(set(side) for side in sides)))
    squares, freedom = NOISE_ROUNDS * NOISE**2, float(NOISE_ROUNDS)
    if len(shared) > 1 and len(sides) > 1:
        logs = np.log([[side[number] for number in shared] for side in sides])
        rest = logs - logs.mean(0) - logs.mean(1, keepdims=True) + logs.mean()
        squares += float(np.sum(rest**2))
        freedom += (len(sides) - 1) * (len(shared) - 1)
    return squares / freedom, freedom
