"""Tables follow from the classes of rows; a store that lacks a column, or has a kind of another program, is read."""

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import KINDS, Row
from placerl.harness.store import tables
from placerl.harness.store.store import Store

OF: dict[str, Any] = {"suite": "s", "primitive": "p", "quantity": "q", "unit": "s", "value": 1.0}
OF |= {"provenance": Provenance.MEASURED}


@pytest.fixture(autouse=True)
def kinds_of_this_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    known = dict(KINDS)
    yield
    KINDS.clear()
    KINDS.update(known)


def early() -> type[Row]:
    @dataclass(frozen=True, kw_only=True)
    class Early(Row, table="toy"):
        name: str
        count: int | None = None
        share: float | None = None
        null: bool | None = None
        by_unit: Mapping[str, int] | None = None

    tables.columns(Early)
    return Early


def late() -> type[Row]:
    @dataclass(frozen=True, kw_only=True)
    class Late(Row, table="toy"):
        name: str
        count: int | None = None
        more: str = "as before"

    tables.columns(Late)
    return Late


def stored(path: Path, cell: str, *rows: Row) -> list[Row]:
    with Store.open(path) as store:
        store.begin_run("quick", "r", {"fingerprint": "f"}).finish(cell, rows)
        return store.measurements()


def full(kind: type[Row]) -> Row:
    return kind(**OF, name="a", count=2, share=3, null=False, by_unit={"core": 1})


def test_every_type_is_read_as_it_was_written(tmp_path: Path) -> None:
    kind = early()
    rows = [full(kind), kind(**OF, name=""), replace(full(kind), null=True, by_unit={})]
    found = stored(tmp_path / "s", "a", *rows)
    assert found == rows
    assert [type(getattr(found[0], name)) for name in ("share", "null", "count")] == [float, bool, int]


def test_a_new_column_with_a_default_needs_no_migration(tmp_path: Path) -> None:
    stored(tmp_path / "s", "a", full(early()))
    kind = late()
    with Store.open(tmp_path / "s", read_only=True) as store:
        assert store.measurements() == [kind(**OF, name="a", count=2)]
    found = stored(tmp_path / "s", "b", kind(**OF, name="b", more="new"))
    assert [(row.name, row.more) for row in found] == [("a", "as before"), ("b", "new")]


def test_a_column_that_a_kind_has_no_longer_stays_in_the_store(tmp_path: Path) -> None:
    stored(tmp_path / "s", "a", full(early()))
    stored(tmp_path / "s", "b", late()(**OF, name="b"))
    kind = early()
    with Store.open(tmp_path / "s", read_only=True) as store:
        assert store.measurements()[0] == full(kind)


def test_a_kind_of_another_program_is_read_copied_and_shown(tmp_path: Path) -> None:
    stored(tmp_path / "s", "a", full(early()))
    del KINDS["toy"]
    with Store.open(tmp_path / "s", read_only=True) as theirs, Store.open(tmp_path / "t") as ours:
        assert ours.copy_from(theirs) == 1
        (row,) = ours.measurements()
        assert (row.table, row.name, row.share, row.null, row.by_unit) == (
            "toy",
            "a",
            3.0,
            False,
            {"core": 1},
        )
        assert ours.frame()[["kind", "name", "count", "null"]].values.tolist() == [["toy", "a", 2, False]]
    kind = early()
    with Store.open(tmp_path / "t", read_only=True) as ours:
        assert ours.measurements() == [full(kind)]


def test_a_column_that_a_kind_lacks_holds_none_in_a_frame(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        run = store.begin_run("quick", "r", {"fingerprint": "f"})
        run.finish("a", [full(early()), KINDS["other_result"](**OF)])
        assert store.frame()["count"].tolist() == [2, None]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE other (id INTEGER)",
        "CREATE VIEW other AS SELECT 1",
        "CREATE INDEX other ON cell (name)",
        "CREATE TABLE x (measurement_id INTEGER PRIMARY KEY REFERENCES cell(id)) STRICT",
        "DROP INDEX measurement_by_cell",
        "CREATE TRIGGER t AFTER INSERT ON toy BEGIN DELETE FROM toy; END",
    ],
)
def test_tables_of_another_form_are_refused(tmp_path: Path, statement: str) -> None:
    stored(tmp_path / "s", "a", full(early()))
    database = sqlite3.connect(tmp_path / "s")
    database.execute(statement)
    database.close()
    with pytest.raises(UserError, match="other tables"):
        Store.open(tmp_path / "s", read_only=True)


@pytest.mark.parametrize("spoilt", ["by_unit = 'no JSON'", "by_unit = '{\"core\": NaN}'"])
def test_a_column_of_other_content_is_one_clear_error(tmp_path: Path, spoilt: str) -> None:
    stored(tmp_path / "s", "a", full(early()))
    with sqlite3.connect(tmp_path / "s") as database:
        database.execute(f"UPDATE toy SET {spoilt}")
    with Store.open(tmp_path / "s", read_only=True) as store, pytest.raises(UserError, match="store content"):
        store.measurements()


def test_a_name_that_no_column_can_have_is_refused() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Odd(Row, table="odd"):
        Name: str = ""

    with pytest.raises(TypeError, match="column 'Name'"):
        tables.columns(Odd)


def test_a_line_of_a_table_of_all_kinds_is_the_row() -> None:
    row = full(early())
    assert tables.from_flat(tables.flat(row)) == row


def test_numbers_of_numpy_are_stored_and_values_of_another_type_refused() -> None:
    kind = early()
    row = kind(**OF, name="n", count=np.int64(3), share=np.float32(0.5), null=np.bool_(True))
    assert tables.from_flat(tables.flat(row)) == kind(**OF, name="n", count=3, share=0.5, null=True)
    for wrong in ({"count": 2.5}, {"null": "False"}, {"name": 3}):
        with pytest.raises(TypeError, match=rf"Early.{next(iter(wrong))}: found .*; allowed: "):
            tables.flat(kind(**{**OF, "name": "n"} | wrong))


def test_a_line_of_a_kind_of_another_program_says_whose_number_it_is() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Elsewhere(Row, table="elsewhere", who="backend", where="device"):
        backend: str
        device: str
        pairs: int | None = None

    line = tables.flat(Elsewhere(**OF, backend="cpprb", device="cpu", pairs=3))
    del KINDS["elsewhere"]
    row: Any = tables.from_flat(line)
    assert (row.who, row.where, row.pairs, row.table) == ("cpprb", "cpu", 3, "elsewhere")
