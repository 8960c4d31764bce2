"""Claims, findings and verdicts: what holds for every one of them."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.assumptions import Check
from placerl.harness.papers.base import Claim, Finding, Outcome, Verdict, by_a_model
from placerl.harness.papers.number import Number
from placerl.harness.plan.tiers import TIERS
from placerl.harness.store.cell import Cell

MEASURED = Number("time", 2.0, "s", Provenance.MEASURED, rows=(4, 2))
PUBLISHED = Number("gain", 3.0, "ratio", Provenance.PUBLISHED, rows=(2,))


def claim(check: Check | None = None, **fields: Any) -> Claim:
    base = {"key": "MAP-T5", "place": "VII-D", "position": 1, "statement": "says", "needs": "a GPU"}
    judge = {} if check is None else {"judge": lambda _, frame: check(frame)}
    kind: type[Claim] = type("Stated", (Claim,), base | fields | judge)
    return kind()


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_finding_says_what_is_missing_exactly_where_it_was_not_run(outcome: Outcome) -> None:
    ours = (MEASURED,)
    if outcome is Outcome.NOT_RUN:
        assert Finding(outcome, needs="a GPU").needs == "a GPU"
        with pytest.raises(ValueError, match="needs: found ''"):
            Finding(outcome, ours)
    else:
        assert Finding(outcome, ours).outcome is outcome
        with pytest.raises(ValueError, match="needs: found 'a GPU'"):
            Finding(outcome, ours, needs="a GPU")


@pytest.mark.parametrize("outcome", [one for one in Outcome if one is not Outcome.NOT_RUN])
def test_only_no_verdict_stands_without_a_number(outcome: Outcome) -> None:
    if outcome is Outcome.NO_VERDICT:
        assert Finding(outcome).ours == ()
    else:
        with pytest.raises(ValueError, match="ours: found none"):
            Finding(outcome)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_what_would_decide_is_said_of_no_verdict_alone(outcome: Outcome) -> None:
    if outcome is Outcome.NO_VERDICT:
        assert Finding(outcome, decides="a larger batch").decides == "a larger batch"
    else:
        needs = "a GPU" if outcome is Outcome.NOT_RUN else ""
        with pytest.raises(ValueError, match="decides: found 'a larger batch'; allowed: only for no verdict"):
            Finding(outcome, (MEASURED,), needs=needs, decides="a larger batch")


def test_a_formula_agrees_or_shows_nothing() -> None:
    agrees = by_a_model(True, (PUBLISHED,), "Counted.", unknown="The clock is not known.")
    assert (agrees.outcome, agrees.explanation) == (Outcome.CONSISTENT, "Counted.")
    apart = by_a_model(False, (PUBLISHED,), "Counted.", unknown="The clock is not known.")
    assert (apart.outcome, apart.explanation) == (Outcome.NO_VERDICT, "Counted. The clock is not known.")


def test_a_claim_says_what_would_decide_where_its_finding_does_not() -> None:
    def said(finding: Finding) -> str:
        return claim(lambda _: finding, decides="five seeds").evaluate(pd.DataFrame()).finding.decides

    assert said(Finding(Outcome.NO_VERDICT)) == "five seeds"
    assert said(Finding(Outcome.NO_VERDICT, decides="a larger batch")) == "a larger batch"
    assert said(Finding(Outcome.CONSISTENT, (PUBLISHED,))) == ""
    suspect = replace(MEASURED, suspect="impossible")
    assert said(Finding(Outcome.IN_KIND, (suspect,))) == "", "another thing is missing"


def test_a_verdict_that_was_not_run_says_what_is_missing() -> None:
    found = claim(lambda _: Finding(Outcome.NOT_RUN, needs="a GPU")).evaluate(pd.DataFrame())
    assert found.verdict == "not run: needs a GPU"
    assert (found.needs, found.ours, found.provenance, found.rows) == ("a GPU", "", "", ())
    assert found.published == "not in the text"


@pytest.mark.parametrize(
    ("reads", "key", "read"),
    [
        (("profile",), "profile/hopper-ddpg/256", True),
        (("profile",), "profiles/hopper-ddpg/256", False),
        (("claim/MAP-F12",), "claim/MAP-F12", True),
        (("claim/MAP-F12",), "claim/MAP-F12-threads", False),
        (("compare/*/sb3",), "compare/hopper-ddpg/sb3", True),
        (("compare/*/sb3",), "compare/hopper-ddpg/rllib", False),
        (("profile", "run"), "run/hopper-ddpg/256/seed0", True),
        ((), "profile/hopper-ddpg/256", False),
    ],
)
def test_a_claim_reads_the_cells_under_what_it_names(reads: tuple[str, ...], key: str, read: bool) -> None:
    assert claim(reads=reads).needs_cells([key], TIERS["quick"]) == ({key} if read else set())


def test_a_claim_needs_its_own_cells_and_no_others() -> None:
    own = Cell("claim/MAP-T5", 1.0, lambda *_: [])
    stated = claim(measured_by=(lambda tier: [own] if tier.name == "quick" else [],))
    keys = ["claim/MAP-T5", "claim/MAP-T5-gains", "profile"]
    assert stated.needs_cells(keys, TIERS["quick"]) == {"claim/MAP-T5"}
    assert stated.needs_cells(keys, TIERS["full"]) == set()
    assert stated.is_measured
    assert claim(reads=("profile",)).is_measured
    assert not claim().is_measured


def test_what_is_not_drawn_has_no_figure() -> None:
    assert claim().draw(pd.DataFrame()) is None


def test_a_verdict_shows_the_weakest_provenance_and_the_rows_of_all_numbers() -> None:
    found = claim(
        published=(PUBLISHED, PUBLISHED),
        check=lambda _: Finding(Outcome.REPRODUCED, (MEASURED, PUBLISHED), "Said."),
    ).evaluate(pd.DataFrame())
    assert (found.key, found.paper, found.place, found.statement) == ("MAP-T5", "MAP", "MAP VII-D", "says")
    assert found.verdict == "reproduced"
    assert found.published == "3x; 3x"
    assert found.ours == "time: 2 s; gain: 3x"
    assert found.provenance == "published"
    assert found.rows == (2, 4)


def test_a_verdict_as_plain_data() -> None:
    made = Verdict(claim(published=(PUBLISHED,)), Finding(Outcome.IN_KIND, (MEASURED,), "Said."))
    data = made.to_json()
    assert {
        name: data[name] for name in ("key", "place", "verdict", "explanation", "needs", "provenance")
    } == {
        "key": "MAP-T5",
        "place": "MAP VII-D",
        "verdict": "reproduced in kind",
        "explanation": "Said.",
        "needs": "",
        "provenance": "measured",
    }
    assert data["published"][0]["value"] == 3.0
    assert (data["ours"][0]["value"], data["ours"][0]["unit"]) == (2.0, "s")
