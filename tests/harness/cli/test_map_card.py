"""`placerl map --platform` takes the card, or the bundle, of a machine that is not here."""

import json
from pathlib import Path

import pytest

from placerl.harness.cli import map_command
from placerl.harness.machines import renting
from placerl.harness.mapping import DEFAULT_STRATEGY
from placerl.harness.plan.choosing import choose_mapping
from tests.harness.cli.command_line import Placerl, refused
from tests.harness.cli.test_map import same_in_python
from tests.harness.cli.test_screen import too_wide
from tests.harness.machines.test_rates import NAME, SIZE, committed_run, slower


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a known machine's bundle, and the card of one that takes twice as long for everything."""
    monkeypatch.setattr(renting, "COMMITTED", tmp_path / "committed")
    (tmp_path / "committed").mkdir()
    committed_run()[0].write(tmp_path / "known.json")
    slower(2).write(tmp_path / "twice.json")
    return tmp_path


def asked(folder: Path, *more: str, size: int = SIZE) -> tuple[str, ...]:
    """The command for the slower machine."""
    card, results = folder / "twice.json", folder / "results"
    return "map", NAME, "--batch-size", str(size), "--platform", str(card), "--results", str(results), *more


def test_a_card_is_predicted_with_intervals_and_stores_nothing(
    placerl: Placerl, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_command.out, "width", 60)
    known = ("--known", str(folder / "known.json"))
    outcome = placerl(*asked(folder, *known, "--all"))
    assert outcome.status == 0, outcome.err
    assert not too_wide(outcome.out, 60)
    said = " ".join(outcome.out.split())
    assert f"{DEFAULT_STRATEGY} chooses native-native-cpu: " in said
    assert "A processor, 2 cores, predicted from its card and 1 known machine." in said
    assert "too fast in the median" not in said, "which is about platforms' numbers"
    rows = json.loads(placerl(*asked(folder, *known, "--json")).out)
    times = [row for row in rows if row["quantity"] == "time_per_call"]
    assert {row["provenance"] for row in times} == {"modelled"}
    assert all(row["low"] < row["value"] < row["high"] for row in times)
    rates = [row for row in rows if row["suite"] == "prediction" and row["value"]]
    assert {row["inputs"] for row in rates} == {"modelled"}
    assert {DEFAULT_STRATEGY, "map-tpds23", "primitive-sum"} <= {row["strategy"] for row in rates}
    choice = choose_mapping(
        NAME, batch_size=SIZE, platform=folder / "twice.json", known=[folder / "known.json"]
    )
    same_in_python(rows, choice)
    assert not (folder / "results").exists()


def test_a_bundle_has_its_own_times_and_stands_next_to_a_card(placerl: Placerl, folder: Path) -> None:
    measured, twice = str(folder / "known.json"), str(folder / "twice.json")
    outcome = placerl(
        "map",
        NAME,
        "--batch-size",
        str(SIZE),
        "--platform",
        measured,
        "--against",
        twice,
        "--known",
        measured,
    )
    assert outcome.status == 0, outcome.err
    said = " ".join(outcome.out.split())
    assert "A processor, 2 cores, as measured there." in said
    assert f"{committed_run()[1]['native-native-cpu']:,.1f} gradient steps/s, 1 times the first" in said
    assert "0.5 times the first" in said


def test_what_cannot_be_predicted_is_refused(placerl: Placerl, folder: Path) -> None:
    known = ("--known", str(folder / "known.json"))
    refused(placerl(*asked(folder)), "--known: found no time of cartpole-dqn 32")
    refused(placerl(*asked(folder, *known, size=48)), "--known: found no time of cartpole-dqn 48")
    refused(placerl(*asked(folder, *known, "--set", "device.cpu.cores=4")), "--set", "none with a card")
    refused(placerl("map", NAME, *known, "--platform", "pal21"), "--known", "none without the card")
    (folder / "twice.json").write_text((folder / "twice.json").read_text().replace("A processor", "Another"))
    refused(placerl(*asked(folder, *known)), "twice.json: hash", "the file was edited")
