import json
import math
from dataclasses import dataclass

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import KINDS, HowTimed, Row
from placerl.harness.store.rows import PieceTime

GOOD = {
    "suite": "profile",
    "primitive": "sum_tree.sample",
    "quantity": "time_per_call",
    "unit": "s",
    "provenance": "measured",
    "value": 1.0,
}


def test_words_become_members_and_numbers_floats():
    measurement = PieceTime(**GOOD | {"samples": [1, 2], "low": 1, "high": 2, "batch_size": 32})
    assert measurement.provenance is Provenance.MEASURED
    assert measurement.samples == (1.0, 2.0)
    assert isinstance(measurement.low, float)


@pytest.mark.parametrize(
    "change",
    [
        {"batch_size": 1},
        {"low": 1.0, "high": 1.0},
        {"status": "too_noisy", "reason": "the interval is wide"},
        {"status": "failed", "value": None, "reason": "no memory"},
        {"status": "not_run", "value": None, "reason": "needs a GPU"},
    ],
)
def test_fields_at_their_bounds_and_every_status_are_accepted(change):
    measurement = PieceTime(**GOOD | change)
    assert {name: getattr(measurement, name) for name in change} == change


def test_json_holds_the_kind_and_every_field():
    row = PieceTime(**GOOD | {"samples": (1.0, 2.0), "notes": {"a": [1]}, "cycles": 7})
    found = json.loads(json.dumps(row.to_json()))
    assert KINDS[found.pop("kind")] is PieceTime
    assert PieceTime(**found | {"timed": HowTimed(**found["timed"]), "precisions": ()}) == row


def test_a_class_without_a_table_is_no_kind():
    assert Row not in KINDS.values()
    assert all(kind.table == name for name, kind in KINDS.items())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"suite": ""}, "suite"),
        ({"quantity": "speed", "unit": ""}, "quantity"),
        ({"workload": "\x1b[2J"}, "workload"),
        ({"backend": "two\nlines"}, "backend"),
        ({"workload": None}, "workload"),
        ({"reason": None}, "reason"),
        ({"batch_size": 0}, "batch_size"),
        ({"provenance": "guessed"}, "provenance"),
        ({"status": "fine"}, "status"),
        ({"status": "failed", "value": None}, "reason"),
        ({"reason": "because"}, "reason"),
        ({"status": "not_run", "reason": "needs a GPU"}, "value"),
        ({"value": None}, "value"),
        ({"value": math.nan}, "value"),
        ({"low": 1.0}, "low, high"),
        ({"low": 2.0, "high": 1.0}, "low, high"),
        ({"samples": (1.0, math.inf)}, "samples"),
        ({"notes": {"x": math.nan}}, "JSON"),
        ({"work": {"x": math.nan}}, "JSON"),
        ({"notes": []}, "notes"),
        ({"timed": {}}, "timed"),
    ],
)
def test_contradictions_are_refused_by_name(change, named):
    with pytest.raises(ValueError, match=named):
        PieceTime(**GOOD | change)


@pytest.mark.parametrize("change", [{"notes": {"x": object()}}, {"batch_size": 1.5}, {"value": "1"}])
def test_wrong_types_are_refused(change):
    with pytest.raises(TypeError):
        PieceTime(**GOOD | change)


def test_a_reason_holds_nothing_that_a_terminal_obeys():
    failed = PieceTime(**GOOD | {"status": "failed", "value": None, "reason": "a\x1b[2Jb\n\tc\x07"})
    assert failed.reason == "a [2Jb\n\tc "


def test_a_kind_may_not_name_a_column_as_a_frame_names_the_run_s() -> None:
    with pytest.raises(TypeError, match=r"Twice: found \['cell'\]"):

        @dataclass(frozen=True, kw_only=True)
        class Twice(Row, table="twice"):
            cell: str = ""
