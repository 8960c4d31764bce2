"""`placerl claims`: the papers' statements with the verdicts on them, all or some."""

import json
from pathlib import Path

import pytest

from placerl.harness import papers
from placerl.harness.store.store import Store
from tests.harness.cli.command_line import Placerl, refused


@pytest.fixture
def empty(tmp_path: Path) -> str:
    with Store.open(tmp_path / "placerl.sqlite") as store:
        store.begin_run("quick", "r1", {"fingerprint": "f"})
    return str(tmp_path)


def keys(text: str) -> set[str]:
    return {verdict["key"] for verdict in json.loads(text)}


def test_every_claim_is_listed_with_what_it_needs(placerl: Placerl, empty: str) -> None:
    listed = placerl("claims", "--results", empty)
    assert listed.status == 0, listed.err
    every = {claim.key for claim in papers.claims()}
    assert f"{len(every)} claims" in listed.out
    assert "not run: needs" in " ".join(listed.out.split())
    assert keys(placerl("claims", "--json", "--results", empty).out) == every
    assert not (Path(empty) / "report").exists(), "it only reads"


def test_claims_are_chosen_by_key_and_by_verdict(placerl: Placerl, empty: str) -> None:
    def chosen(*options: str) -> list[dict[str, str]]:
        found: list[dict[str, str]] = json.loads(
            placerl("claims", *options, "--json", "--results", empty).out
        )
        return found

    of_fix = chosen("--only", "FIX")
    assert chosen("--paper", "FIX") == of_fix
    assert {one["key"] for one in of_fix} == {claim.key for claim in papers.claims("FIX")}
    found = {one["verdict"] for one in of_fix}
    assert len(found) > 1
    for outcome in found:
        assert chosen("--only", "FIX", "--verdict", outcome) == [o for o in of_fix if o["verdict"] == outcome]
    both = chosen("--only", "FIX", *(word for outcome in found for word in ("--verdict", outcome)))
    assert both == of_fix
    assert chosen("--only", "FIX", "--verdict", "reproduced") == []


def test_what_is_asked_for_must_exist(placerl: Placerl, empty: str, tmp_path: Path) -> None:
    refused(
        placerl("claims", "--verdict", "true", "--results", empty),
        "--verdict: found 'true'; allowed: reproduced, reproduced in kind, consistent",
    )
    refused(placerl("claims", "--only", "XYZ", "--results", empty), "--only: found 'XYZ'")
    refused(placerl("claims", "--results", str(tmp_path / "none")), "none")
    assert not (tmp_path / "none").exists()
