"""Which claims are asked for, and which rows each one is given."""

from pathlib import Path

import pandas as pd
import pytest

from placerl.harness import papers as claims
from placerl.harness.core.errors import UserError
from placerl.harness.papers import Claim, Finding, Outcome
from placerl.harness.store.store import Store
from tests.harness.papers.rows import MACHINE, compared


def test_only_chooses_by_key_and_refuses_what_is_unknown() -> None:
    assert [claim.key for claim in claims.claims("MAP-T5")] == ["MAP-T5", "MAP-T5-gains"]
    assert [claim.key for claim in claims.claims("MAP-T5-gains")] == ["MAP-T5-gains"]
    assert {claim.paper for claim in claims.claims("FIX")} == {"FIX"}
    with pytest.raises(UserError, match="--only: found 'NONE'"):
        claims.claims("NONE")
    with pytest.raises(UserError, match=r"MAP-IV-D1, .*did you mean MAP-T5"):
        claims.claims("MAP-T4")
    with pytest.raises(UserError, match="a claim's key, such as MAP-T5"):
        claims.claims("XYZ-T4")


def test_claims_stand_in_the_order_of_the_papers() -> None:
    papers = list(dict.fromkeys(claim.paper for claim in claims.claims()))
    assert papers == ["MAP", "PAL", "PRL", "PPO", "FIX"]
    assert papers == list(claims.titles())
    with pytest.raises(UserError):
        claims.claims("MAP-T")  # no key begins so up to a hyphen


def test_a_claim_about_machines_is_given_the_rows_of_all_and_others_those_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path / "store.sqlite") as store:
        for fingerprint, gains in (("here", (2.0, 3.0)), ("there", (8.0, 9.0))):
            for gain in gains:  # the second run measures the same cell again
                run = store.begin_run("quick", "revision", MACHINE | {"fingerprint": fingerprint}, fresh=True)
                run.finish("compare/cartpole-dqn/sb3", [compared(gain, "faster")])
        frame = store.frame()
    here = frame[frame["fingerprint"] == "here"]
    given: dict[str, list[float]] = {}

    class Here(Claim):
        key = "MAP-X"

        def judge(self, frame: pd.DataFrame) -> Finding:
            given[self.key] = sorted(frame["value"])
            return Finding(Outcome.NO_VERDICT)

    class Everywhere(Here):
        key, everywhere = "MAP-Y", True

    monkeypatch.setattr(claims, "claims", lambda _: [Here(), Everywhere()])
    assert [verdict.key for verdict in claims.evaluate(here, everywhere=frame)] == ["MAP-X", "MAP-Y"]
    assert given == {"MAP-X": [3.0], "MAP-Y": [3.0, 9.0]}
    claims.evaluate(here)
    assert given == {"MAP-X": [3.0], "MAP-Y": [3.0]}
