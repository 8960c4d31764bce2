"""The outcome of a check under two assumptions, neither of which the paper rules out."""

from itertools import product

import pytest

from placerl.harness.core.outcome import Outcome
from placerl.harness.papers import Finding
from placerl.harness.papers.assumptions import AGREEMENTS, both_outcomes, what_decides


@pytest.mark.parametrize(("one", "other"), list(product(Outcome, repeat=2)))
def test_one_agreement_is_consistent_and_a_refutation_takes_both(one: Outcome, other: Outcome) -> None:
    said = both_outcomes(one, other)
    assert said is both_outcomes(other, one)
    assert (said is Outcome.NOT_REPRODUCED) is (one is other is Outcome.NOT_REPRODUCED)
    assert (said in AGREEMENTS) is (one in AGREEMENTS or other in AGREEMENTS)
    assert (said is Outcome.REPRODUCED) is (one is other is Outcome.REPRODUCED)
    if {one, other} & set(AGREEMENTS) and not {one, other} <= set(AGREEMENTS):
        assert said is Outcome.CONSISTENT, "more than consistent takes both"


def test_what_would_decide_is_kept_where_nothing_is_decided() -> None:
    open_one = Finding(Outcome.NO_VERDICT, decides="a larger batch")
    silent = Finding(Outcome.NO_VERDICT)
    assert what_decides(Outcome.NO_VERDICT, silent, open_one) == "a larger batch"
    assert what_decides(Outcome.NO_VERDICT, open_one, silent) == "a larger batch"
    assert what_decides(Outcome.CONSISTENT, open_one, silent) == ""
