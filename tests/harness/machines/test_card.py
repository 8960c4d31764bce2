"""The card's schema is committed, and figures hold what they say."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from placerl.harness.machines import card
from placerl.harness.machines.card import Card, Figure


def test_the_committed_schema_is_that_of_the_card() -> None:
    committed = Path(card.__file__).with_suffix(".schema.json")
    assert json.loads(committed.read_text()) == Card.model_json_schema()


@pytest.mark.parametrize(
    "fields",
    [
        {"value": None},
        {"value": 1.0},
        {"value": 1.0, "low": 1.1, "high": 1.2},
        {"value": 1.0, "low": 0.9},
        {"status": "failed", "value": 1.0, "low": 1.0, "high": 1.0},
        {"value": 0.0, "low": 0.0, "high": 0.0},
        {"name": "/home/me", "value": 1.0, "low": 1.0, "high": 1.0},
    ],
)
def test_a_figure_that_contradicts_itself_is_refused(fields: dict) -> None:
    with pytest.raises(ValidationError):
        Figure(**{"name": "a.b", "unit": "s", **fields})
