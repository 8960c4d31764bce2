"""The rule by which gains are held against the published ones, whichever tier, experiment or formula they come from.

In kind needs the paper's order and its direction, with whole intervals; a gain above 0 alone is not enough.
"""

from collections.abc import Sequence
from itertools import combinations

from harness.papers.base import Outcome
from harness.papers.number import Number

NEAR = 0.2
"""A gain is the published one when its whole interval lies within this share of it."""

Interval = tuple[float, float]
"""The lowest and the highest value; twice the same where there is only one."""


def interval(number: Number) -> Interval:
    """Return the number's interval; a number without one, such as counted cycles, is exact."""
    if number.low is None or number.high is None:
        return number.value, number.value
    return number.low, number.high


def in_order(ours: Sequence[Interval], published: Sequence[Interval]) -> bool | None:
    """Whether ours lie in the published order.

    Args:
        ours, published: of the same things, in the same sequence.

    Returns:
        True: every two that the paper tells apart are apart here, the same way round; False: two are apart the other
        way round; None: some intervals overlap here, and none contradict.
    """
    sure = True
    for a, b in combinations(range(len(published)), 2):
        low, high = (a, b) if published[a][1] < published[b][0] else (b, a)
        if not published[low][1] < published[high][0]:
            continue
        if ours[high][1] < ours[low][0]:
            return False
        sure &= ours[low][1] < ours[high][0]
    return True if sure else None


def judged(ours: Sequence[Number], published: Sequence[Interval]) -> Outcome:
    """Return the outcome of simulated or measured gains.

    Args:
        ours: gains above what they are compared with; 0 is none. An unknown condition, such as when training stopped,
            belongs into the interval.
        published: what the paper prints for each, in the same unit.

    Returns:
        reproduced: every whole interval is within `NEAR` of the published gain; in kind: every one is above 0, in the
        published order; not reproduced: one is below 0, two contradict the order, or every gain is below the
        published one without its order being shown; else no verdict.
    """
    found = [interval(number) for number in ours]
    order = in_order(found, published)
    if order is False or any(high < 0 for _, high in found):
        return Outcome.NOT_REPRODUCED
    pairs = list(zip(found, published, strict=True))
    if all((1 - NEAR) * p[0] <= low and high <= (1 + NEAR) * p[1] for (low, high), p in pairs):
        return Outcome.REPRODUCED
    if order and all(low > 0 for low, _ in found):
        return Outcome.IN_KIND
    if all(high < p[0] for (_, high), p in pairs):
        return Outcome.NOT_REPRODUCED
    return Outcome.NO_VERDICT
