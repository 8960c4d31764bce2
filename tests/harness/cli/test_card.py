"""`placerl card` shows, writes and prints cards."""

import json
from pathlib import Path

import pytest

from placerl.harness.cli import card_command
from placerl.harness.machines import measuring
from placerl.harness.machines.card import Card
from tests.harness.cli.command_line import Placerl, refused
from tests.harness.machines.example_cards import a_card


def test_a_card_is_measured_written_and_shown(
    placerl: Placerl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(measuring, "measure", lambda report: a_card())
    monkeypatch.setattr(card_command.out, "width", 60)
    path = tmp_path / "cards" / "a.json"
    said = placerl("card", "-o", str(path))
    assert said.status == 0
    assert "118 GFLOP/s" in said.out
    assert "-1.0% +1.0%" in said.out
    assert all(len(line) <= 60 for line in said.out.splitlines() if str(path) not in line)
    assert Card.read(path) == a_card()
    assert json.loads(placerl("card", "--show", str(path), "--json").out)["hash"] == a_card().hash


def test_an_edited_card_is_refused(placerl: Placerl, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    a_card().write(path)
    path.write_text(path.read_text().replace('"avx2"', '"avx512"', 1))
    refused(placerl("card", "--show", str(path)), "a.json: hash", "edited")
    refused(placerl("card", "--show", str(tmp_path / "none.json")), "no such file")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(1.234e9, "B/s", "1.23 GB/s"), (69e-9, "s", "69 ns"), (24e6, "1/s", "24 M/s"), (0.99712, "1", "0.997")],
)
def test_a_number_has_the_prefix_of_its_unit(value: float, unit: str, text: str) -> None:
    assert card_command.quantity(value, unit) == text
