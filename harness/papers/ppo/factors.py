"""Judges measured factors against factors that PPO states with "about" (5.3.1)."""

from placerl.harness.papers.base import Outcome
from placerl.harness.papers.evidence import Paired

NEAR = 1.25
"""Largest ratio to a factor stated with "about" that counts as equal."""
IN_KIND = 0.5
"""Smallest share of the published factor at which the outcome is still "reproduced in kind"."""


def factor_outcome(times: list[Paired], stated: float) -> Outcome:
    """Return the outcome for a factor that the paper states with "about", from comparisons that measured it.

    An interval is that of a comparison, widened by how far two timings of the same thing differ.

    Returns:
        - Reproduced: every interval is within a factor of 1.25 (`NEAR`) of the published factor.
        - In kind: every interval is above half of the published factor (`IN_KIND`).
        - Not reproduced: an interval is below half of the published factor.
        - No verdict: none of these.
    """
    intervals = [each.beyond_noise for each in times]
    known = [each for each in intervals if each is not None]
    if any(high < IN_KIND * stated for _, high in known):
        return Outcome.NOT_REPRODUCED
    if len(known) < len(intervals) or any(low < IN_KIND * stated for low, _ in known):
        return Outcome.NO_VERDICT
    near = all(stated / NEAR <= low and high <= NEAR * stated for low, high in known)
    return Outcome.REPRODUCED if near else Outcome.IN_KIND
