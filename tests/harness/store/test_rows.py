"""Kinds of rows: a column means the same in each, and no name is one of a frame's own columns."""

import pytest

from placerl.harness.core.row import KINDS, Row
from placerl.harness.store import store, tables

SHOWN = {*store.RUN_COLUMNS, *tables.SHARED, "kind", "who", "where", "Index"}


def test_a_column_has_one_type_in_all_kinds() -> None:
    types: dict[str, set[str]] = {}
    for kind in KINDS.values():
        for name, one in tables.columns(kind).items():
            types.setdefault(name, set()).add(one)
    assert {name: found for name, found in types.items() if len(found) > 1} == {}


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.table)
def test_no_column_has_a_name_that_a_frame_gives_another(kind: type[Row]) -> None:
    assert not SHOWN & set(tables.columns(kind))
    assert kind.__doc__
