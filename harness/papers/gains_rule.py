"""Judges the gains that this project finds against the published ones, by one rule for all experiments and formulas.

The outcome "in kind" needs the paper's order and direction, with whole intervals; a gain above 0 alone is not enough.
"""

import math
from collections.abc import Sequence
from itertools import permutations

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.base import Outcome
from placerl.harness.papers.evidence import NEAR
from placerl.harness.papers.number import Number

Interval = tuple[float, float]
"""Lowest and highest value; equal if there is only one value."""


def interval(number: Number) -> Interval:
    """Return the interval of a number, (low, high); for an exact number, such as counted cycles, its value twice.

    A measured number without an interval was timed in too few rounds: it may have any value.
    """
    if number.low is not None and number.high is not None:
        return number.low, number.high
    if number.provenance is Provenance.MEASURED:
        return -math.inf, math.inf
    return number.value, number.value


def in_order(ours: Sequence[Interval], published: Sequence[Interval]) -> bool | None:
    """Return whether this project's gains are in the same order as the published ones.

    Args:
        published: the paper's gains of the same things, in the same sequence.

    Returns:
        True if every two gains that differ in the paper differ here in the same direction; False if two differ in the
        opposite direction; None if some intervals overlap here and none contradicts.
    """
    sure = True
    for low, high in permutations(range(len(published)), 2):
        if not published[low][1] < published[high][0]:
            continue
        if ours[high][1] < ours[low][0]:
            return False
        sure &= ours[low][1] < ours[high][0]
    return True if sure else None


def judged(ours: Sequence[Number], published: Sequence[Interval]) -> Outcome:
    """Return the outcome for simulated or measured gains, compared with the published ones.

    Args:
        ours: this project's gains over the compared system; 0 is no gain. If a condition is unknown, such as when
            training stopped, the interval has to span its possible values.
        published: the paper's value of each gain, in the same unit.

    Returns:
        - Reproduced: every whole interval is within 20% of the published gain (`NEAR`).
        - In kind: every gain is above 0, and the gains are in the published order.
        - Not reproduced: a gain is below 0, two gains contradict the published order, or every gain is below the
          published one without the order being shown.
        - No verdict: none of these.
    """
    intervals = [interval(number) for number in ours]
    order = in_order(intervals, published)
    if order is False or any(high < 0 for _, high in intervals):
        return Outcome.NOT_REPRODUCED
    pairs = list(zip(intervals, published, strict=True))
    if all((1 - NEAR) * p[0] <= low and high <= (1 + NEAR) * p[1] for (low, high), p in pairs):
        return Outcome.REPRODUCED
    if order and all(low > 0 for low, _ in intervals):
        return Outcome.IN_KIND
    if all(high < p[0] for (_, high), p in pairs):
        return Outcome.NOT_REPRODUCED
    return Outcome.NO_VERDICT
