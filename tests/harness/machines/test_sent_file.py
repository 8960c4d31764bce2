"""Files that people send are read without trust."""

import json
from pathlib import Path

import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.machines.card import Card
from placerl.harness.machines.sent_file import content_hash
from tests.harness.machines.example_cards import a_card


def test_a_card_that_was_written_is_read_as_it_was(tmp_path: Path) -> None:
    card = a_card()
    card.write(tmp_path / "a.json")
    assert Card.read(tmp_path / "a.json") == card.sealed()


def test_the_order_of_keys_does_not_change_the_hash() -> None:
    assert content_hash({"a": 1, "b": 2.5}) == content_hash({"b": 2.5, "a": 1})
    assert content_hash({"a": 1}) != content_hash({"a": 2})


def rewritten(path: Path, **changes: object) -> None:
    """Change fields of a card's file, and give it the right hash unless that is changed too."""
    tables = json.loads(path.read_text()) | changes
    content = {key: value for key, value in tables.items() if key != "hash"}
    path.write_text(json.dumps(tables | {"hash": changes.get("hash", content_hash(content))}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": "placerl-card-2"}, ["format", "'placerl-card-2'", "placerl-card-1"]),
        ({"wall_s": 60.0, "hash": "0" * 64}, ["hash", "edited"]),
        ({"host": "mine"}, ["host", "the fields format, hash, facts"]),
        ({"wall_s": -1.0}, ["wall_s", "-1.0", "greater than 0"]),
        ({"figures": []}, ["figures"]),
    ],
)
def test_a_wrong_field_is_refused_by_its_name(tmp_path: Path, changes: dict, words: list[str]) -> None:
    path = tmp_path / "a.json"
    a_card().write(path)
    rewritten(path, **changes)
    with pytest.raises(UserError) as refused:
        Card.read(path)
    assert all(word in str(refused.value) for word in [path.name, *words]), refused.value


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[1]", "a list"),
        ("{", "JSON"),
        ('{"format": NaN}', "NaN"),
        ('{"format": 1e999}', "finite"),
        ("[" * 60_000, "JSON"),
        (" " * (Card.LARGEST_BYTES + 1), "found more than 65536 bytes; allowed"),
        (
            '{"format": "placerl-bundle-1"' + " " * Card.LARGEST_BYTES,
            "65536 bytes of placerl-bundle-1; allowed",
        ),
    ],
    ids=["list", "cut", "NaN", "infinite", "deep", "large", "bundle"],
)
def test_what_is_no_card_is_refused_in_one_line(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(UserError, match=word):
        Card.read(path)
    with pytest.raises(UserError, match="no such file"):
        Card.read(tmp_path / "b.json")
