"""The rule for factors that PPO states with "about" (5.3.1)."""

from harness.papers.base import Outcome
from harness.papers.evidence import Paired

NEAR = 1.25
"""Largest ratio to a factor stated with "about" that counts as equal."""
IN_KIND = 0.5
"""Least share of the published factor that counts as in kind."""


def factor_outcome(times: list[Paired], stated: float) -> Outcome:
    """Return the outcome from all comparisons' intervals, widened by the noise.

    There is no verdict if an interval contains the smallest factor that counts as in kind.
    """
    intervals = [each.beyond_noise for each in times]
    known = [each for each in intervals if each is not None]
    if any(high < IN_KIND * stated for _, high in known):
        return Outcome.NOT_REPRODUCED
    if len(known) < len(intervals) or any(low < IN_KIND * stated for low, _ in known):
        return Outcome.NO_VERDICT
    near = all(stated / NEAR <= low and high <= NEAR * stated for low, high in known)
    return Outcome.REPRODUCED if near else Outcome.IN_KIND
