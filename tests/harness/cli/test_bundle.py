"""`placerl bundle` packs a card and a run's rows; `placerl check` accepts them."""

import json
from pathlib import Path

import pytest

from placerl.harness.cli import common
from placerl.harness.machines.bundle import Bundle
from placerl.harness.machines.measuring import facts_of
from placerl.harness.platforms import this_machine
from placerl.harness.store.store import Store
from tests.harness.cli.command_line import Placerl, refused
from tests.harness.machines.example_cards import a_card
from tests.harness.machines.honest_bundles import committed


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a store and the card of its machine."""
    machine = this_machine.describe(measure_links=False)
    with Store.open(tmp_path / "placerl.sqlite") as store:
        store.begin_run("quick", "r", machine.to_json()).finish("profile", committed()[:10])
    a_card().model_copy(update={"facts": facts_of(machine)}).write(tmp_path / "card.json")
    return tmp_path


def test_a_bundle_is_written_and_accepted(
    placerl: Placerl, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common.out, "width", 60)
    path = here / "bundle.json"
    said = placerl("bundle", "--card", str(here / "card.json"), "--results", str(here), "-o", str(path))
    assert said.status == 0, said
    assert all(len(line) <= 60 for line in said.out.splitlines() if str(path) not in line)
    assert len(Bundle.read(path).rows) == 10
    checked = placerl("check", str(path))
    assert (checked.status, checked.out.split()) == (0, [f"{path}:", "accepted"])


def test_a_refused_bundle_has_its_reasons_and_status_1(placerl: Placerl, here: Path) -> None:
    path = here / "bundle.json"
    placerl("bundle", "--card", str(here / "card.json"), "--results", str(here), "-o", str(path), "--json")
    path.write_text(path.read_text().replace('"ok"', '"too_noisy"'))
    outcome = placerl("check", str(path), "--json")
    assert outcome.status == 1
    (answer,) = json.loads(outcome.out)
    assert not answer["accepted"]
    assert "edited" in answer["reasons"][0]
    assert "refused" in placerl("check", str(path)).out
    refused(placerl("check", str(here / "none.json")), "none.json: file", "no such file")


def test_a_card_of_another_machine_is_refused(placerl: Placerl, here: Path) -> None:
    a_card().write(here / "other.json")
    outcome = placerl(
        "bundle", "--card", str(here / "other.json"), "--results", str(here), "-o", str(here / "b.json")
    )
    refused(outcome, "other.json", "another machine's")
    assert not (here / "b.json").exists()
