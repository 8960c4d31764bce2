"""Joins the findings of one check under two assumptions, where a paper does not state which one holds.

Used for the clock of an accelerator (`clocks`), the latency of a link (`slow_links`) and the width of activations
(`fix.figure_10_array`).
"""

import math
import re
from collections.abc import Callable

import pandas as pd

from placerl.harness.papers.base import Finding, Outcome
from placerl.harness.papers.number import Number

Check = Callable[[pd.DataFrame], Finding]
"""Judges stored measurements, as `Claim.judge` does."""
ROUNDING = 1e-9
"""Largest relative difference at which a number counts as the same under both assumptions."""
AGREEMENTS = (Outcome.REPRODUCED, Outcome.IN_KIND, Outcome.CONSISTENT)


def both_outcomes(one: Outcome, other: Outcome) -> Outcome:
    """Return the outcome of a check that was run under two assumptions, each of which the paper admits.

    Args:
        one, other: its outcomes. Two that are equal are kept, and "reproduced" with "reproduced in kind" gives the
            latter. If only one agrees with the paper, the statement is consistent: under a reading that the paper
            admits it holds. It is refuted only if it fails under both.
    """
    if one is other:
        return one
    if {one, other} == {Outcome.REPRODUCED, Outcome.IN_KIND}:
        return Outcome.IN_KIND
    return Outcome.CONSISTENT if one in AGREEMENTS or other in AGREEMENTS else Outcome.NO_VERDICT


def what_decides(outcome: Outcome, one: Finding, other: Finding) -> str:
    """Return what would decide a check that was run under two assumptions; empty if the joint outcome decides."""
    return one.decides or other.decides if outcome is Outcome.NO_VERDICT else ""


def both_numbers(
    one: Finding, other: Finding, named: Callable[[Number], Number], named_other: Callable[[Number], Number]
) -> tuple[Number, ...]:
    """Return the numbers of two findings; one that has the same value in both, rounding aside, is listed once."""
    left = {number.quantity: number for number in other.ours}
    numbers: list[Number] = []
    for number in one.ours:
        second = left.pop(number.quantity, None)
        if second is None or math.isclose(number.value, second.value, rel_tol=ROUNDING):
            numbers.append(number)
        else:
            numbers += [named(number), named_other(second)]
    return (*numbers, *map(named_other, left.values()))


def sentences_of_its_own(text: str, other: str) -> str:
    """Return the sentences of a text that are not in another one, so that no sentence is shown twice."""
    known = set(re.split(r"(?<=[.:]) ", other))
    return " ".join(sentence for sentence in re.split(r"(?<=[.:]) ", text) if sentence not in known)
