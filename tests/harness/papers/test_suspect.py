"""Numbers that cannot be are marked where they are made, and no verdict rests on one."""

from dataclasses import replace

import pandas as pd
import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers import Finding, Outcome
from placerl.harness.papers.base import Claim, unless_suspect
from placerl.harness.papers.number import (
    LEAST_OF_PARTS,
    Number,
    bounded_speedup,
    checked_baseline,
    ratio,
    shortfall,
)


def measured(value: float, low: float | None = None, high: float | None = None, unit: str = "1/s") -> Number:
    return Number("rate", value, unit, Provenance.MEASURED, "", low, high)


@pytest.mark.parametrize(
    ("low", "suspect"),
    [(1.9, False), (2.0, False), (2.001, True)],
)
def test_a_speedup_above_the_resources_added_is_suspect(low: float, suspect: bool) -> None:
    found = bounded_speedup(measured(2.4, low, 2.6, "ratio"), at_most=2)
    assert bool(found.suspect) is suspect
    assert ("(suspect)" in str(found)) is suspect
    assert replace(found, suspect="") == measured(2.4, low, 2.6, "ratio")


def test_a_speedup_without_an_interval_is_judged_by_its_value() -> None:
    assert bounded_speedup(measured(2.1), at_most=2).suspect
    assert not bounded_speedup(measured(2.0), at_most=2).suspect


def test_a_ratio_is_bounded_only_where_the_resources_are_stated() -> None:
    fast, slow = measured(50.0, 49.0, 51.0), measured(10.0, 9.9, 10.1)
    assert ratio("gain", fast, slow).suspect == ""
    # 49 / 10.1 is the smallest ratio that the intervals allow.
    assert (
        ratio("gain", fast, slow, at_most=4.8).suspect
        == "4.851 times or more as fast with 4.8 times the resources"
    )
    assert ratio("gain", fast, slow, at_most=4.9).suspect == ""


def test_what_is_made_of_a_suspect_number_is_suspect() -> None:
    odd, even = replace(measured(3.0), suspect="odd"), measured(1.0)
    assert ratio("a", odd, even).suspect == ratio("b", even, odd).suspect == "odd"
    assert shortfall("c", even, odd).suspect == "odd"
    assert ratio("d", odd, even, at_most=2).suspect == "odd"


def test_a_baseline_far_below_its_own_parts_is_suspect() -> None:
    parts_s = 0.01  # 100 a second
    assert checked_baseline(measured(30.0, 29.0, 31.0), parts_s).suspect.startswith(
        "31% of the 100 per second"
    )
    assert not checked_baseline(measured(70.0, 60.0, 80.0), parts_s).suspect
    assert checked_baseline(measured(70.0, 60.0, 79.9), parts_s).suspect
    assert not checked_baseline(measured(100 * LEAST_OF_PARTS), parts_s).suspect
    assert checked_baseline(measured(79.9), parts_s).suspect
    assert checked_baseline(replace(measured(100.0), suspect="odd"), parts_s).suspect == "odd"


@pytest.mark.parametrize("outcome", [Outcome.REPRODUCED, Outcome.IN_KIND, Outcome.NOT_REPRODUCED])
def test_a_claim_with_a_suspect_number_gets_no_verdict(outcome: Outcome) -> None:
    sure, odd = measured(2.0), replace(measured(3.0), quantity="speedup", suspect="too much")

    class Odd(Claim):
        def judge(self, frame: pd.DataFrame) -> Finding:
            return Finding(outcome, (sure, odd), "It holds.")

    found = Odd().evaluate(pd.DataFrame()).finding
    assert found.outcome is Outcome.NO_VERDICT
    assert found.explanation == "It holds. Suspect: speedup: too much."
    assert found.ours == (sure, odd)
    untouched = Finding(outcome, (sure,), "It holds.")
    assert unless_suspect(untouched) is untouched


def test_what_was_not_run_stays_not_run() -> None:
    finding = Finding(Outcome.NOT_RUN, (replace(measured(3.0), suspect="odd"),), needs="cores")
    assert unless_suspect(finding) is finding


@pytest.mark.parametrize("provenance", [Provenance.PUBLISHED, Provenance.MODELLED])
@pytest.mark.parametrize("outcome", [Outcome.REPRODUCED, Outcome.IN_KIND, Outcome.NOT_REPRODUCED])
def test_formulas_and_published_numbers_show_nothing_here(outcome: Outcome, provenance: Provenance) -> None:
    number = replace(measured(1.0), provenance=provenance)
    with pytest.raises(ValueError, match=f"found {provenance} numbers.*measured or simulated"):
        Finding(outcome, (number,))
    for shown in (Provenance.MEASURED, Provenance.SIMULATED):
        assert Finding(outcome, (number, replace(number, provenance=shown))).outcome is outcome
    assert Finding(Outcome.CONSISTENT, (number,)).outcome is Outcome.CONSISTENT
