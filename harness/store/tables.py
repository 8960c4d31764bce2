"""Makes the tables of the store from the classes of its rows: one of what every row has, and one a kind of row.

A row of the table `measurement` names its kind, and the kind's table holds the kind's own columns under the same id.
The types of columns follow from the annotations of the class. A store may hold a kind that this program does not
declare, or columns that a kind has no longer: the types are then those of the table's own definition, which is checked
to be one that this module writes.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, fields, make_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from placerl.harness.core.row import KINDS, HowTimed, Row

VERSION = 2
"""Version of the schema; `migration` reads the one before."""
Columns = Mapping[str, str]
"""Types of a kind's own columns, by name: keys of `_SQL`."""
SHARED = tuple(one.name for one in fields(Row))
"""Columns of every row."""
_SQL = {
    "text": "TEXT",
    "integer": "INTEGER",
    "real": "REAL",
    "truth": "INTEGER CHECK ({} IN (0, 1))",
    "json": "TEXT CHECK ({} > '')",
}
"""How a type is written. The checks tell apart what SQLite stores alike: JSON is text that is never empty."""
_SCALARS = {str: "text", bool: "truth", int: "integer", float: "real"}
_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    **{"text": str, "real": float, "integer": int, "truth": bool},
    "json": json.loads,
}
_HINTS: dict[str, Any] = {one: hint for hint, one in _SCALARS.items()} | {"json": list}
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_columns: dict[Any, Columns] = {}
_LINE = re.compile(r'^    "([a-z][a-z0-9_]*)" (.+?),?$', re.MULTILINE)
SCHEMA = """
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    tier TEXT NOT NULL,
    revision TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    machine TEXT NOT NULL,
    started_at TEXT NOT NULL
) STRICT;
CREATE TABLE cell (
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL REFERENCES run(id),
    name TEXT NOT NULL,
    finished_at TEXT NOT NULL,
    UNIQUE (run_id, name)
) STRICT;
CREATE TABLE measurement (
    id INTEGER PRIMARY KEY,
    cell_id INTEGER NOT NULL REFERENCES cell(id),
    kind TEXT NOT NULL,
    suite TEXT NOT NULL,
    workload TEXT NOT NULL,
    primitive TEXT NOT NULL,
    batch_size INTEGER,
    quantity TEXT NOT NULL,
    unit TEXT NOT NULL,
    provenance TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL,
    value REAL,
    low REAL,
    high REAL,
    samples TEXT NOT NULL,
    timed TEXT NOT NULL,
    notes TEXT NOT NULL,
    precisions TEXT NOT NULL,
    node TEXT NOT NULL
) STRICT;
CREATE INDEX measurement_by_cell ON measurement (cell_id);
"""
"""The tables of every store; those of kinds come with their first rows."""


def columns(kind: type[Row]) -> Columns:
    """Return the types of a kind's own columns, by name.

    Raises:
        TypeError: a name is none that a column can have.
    """
    if kind in _columns:
        return _columns[kind]
    hints = get_type_hints(kind)
    own = [one.name for one in fields(kind) if one.name not in SHARED]
    for name in (kind.table, *own):
        if not _NAME.fullmatch(name):
            raise TypeError(
                f"{kind.__name__}: column {name!r}: allowed: lower-case letters, digits, underscores"
            )
    _columns[kind] = {name: _type(hints[name]) for name in own}
    return _columns[kind]


def _type(hint: Any) -> str:
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (one for one in get_args(hint) if one is not NoneType)
    return _SCALARS.get(hint, "json")


def fits(value: object, one: str) -> bool:
    """Return whether a column of a type (`Columns`) can hold a value."""
    if one in ("json", "text", "truth"):
        return isinstance(value, {"json": object, "text": str, "truth": bool}[one])
    if isinstance(value, bool) or (isinstance(value, int) and not -(2**63) <= value < 2**63):
        return False
    return isinstance(value, int if one == "integer" else int | float)


def _definition(table: str, own: Columns) -> str:
    lines = [f'    "{name}" {_SQL[one].format(name)}' for name, one in own.items()]
    head = "    measurement_id INTEGER PRIMARY KEY REFERENCES measurement(id) ON DELETE CASCADE"
    return f'CREATE TABLE "{table}" (\n' + ",\n".join([head, *lines]) + "\n) STRICT"


def stored_kinds(database: sqlite3.Connection) -> dict[str, Columns]:
    """Return the columns of each table of a kind that a store holds.

    Raises:
        ValueError: a table, an index or a trigger is none that this module makes.
    """
    kinds: dict[str, Columns] = {}
    shared = _shared()
    known = set()
    for name, definition in schema_of(database):
        if (name, definition) in shared:
            known.add(name)
            continue
        of_type = {form.format(column): one for column in _names(definition) for one, form in _SQL.items()}
        own = {column: of_type.get(form, "") for column, form in _LINE.findall(definition or "")}
        if "" in own.values() or not _NAME.fullmatch(name) or definition != _definition(name, own):
            raise ValueError(f"table {name}")
        kinds[name] = own
    if len(known) != len(shared):
        raise ValueError("a missing table")
    return kinds


def _names(definition: str | None) -> list[str]:
    return [name for name, _ in _LINE.findall(definition or "")]


def schema_of(database: sqlite3.Connection) -> list[tuple[str, str | None]]:
    """Return name and definition of everything in a database's schema."""
    return database.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


@cache
def _shared() -> frozenset[tuple[str, str | None]]:
    reference = sqlite3.connect(":memory:")
    try:
        reference.executescript(SCHEMA)
        return frozenset(schema_of(reference))
    finally:
        reference.close()


def insert(database: sqlite3.Connection, cell_id: int | None, rows: Iterable[Row]) -> None:
    """Store the rows of a cell, and the tables and columns that the store lacks for them."""
    known = stored_kinds(database)
    names = ", ".join(("cell_id", "kind", *SHARED))
    query = f"INSERT INTO measurement ({names}) VALUES (?, ?{', ?' * len(SHARED)})"
    for row in rows:
        own = columns(type(row))
        if not own.items() <= known.get(row.table, {}).items():
            known[row.table] = _extend(database, row.table, known.get(row.table), own)
        values = [_plain(name, getattr(row, name)) for name in SHARED]
        number = database.execute(query, (cell_id, row.table, *values)).lastrowid
        if own:
            place = ", ".join(f'"{name}"' for name in own)
            marks = ", ?" * len(own)
            database.execute(
                f'INSERT INTO "{row.table}" (measurement_id, {place}) VALUES (?{marks})',
                (number, *(_encoded(row, name, one) for name, one in own.items())),
            )


def _extend(database: sqlite3.Connection, table: str, old: Columns | None, own: Columns) -> Columns:
    """Create a kind's table, or give it the columns that it lacks."""
    if old is None:
        database.execute(_definition(table, own))
        return own
    wanted = {**old, **own}
    database.execute(f'ALTER TABLE "{table}" RENAME TO "{table}_before"')
    database.execute(_definition(table, wanted))
    names = ", ".join(["measurement_id", *(f'"{name}"' for name in old)])
    database.execute(f'INSERT INTO "{table}" ({names}) SELECT {names} FROM "{table}_before"')
    database.execute(f'DROP TABLE "{table}_before"')
    return wanted


def select(
    database: sqlite3.Connection, chosen: Mapping[str, Any]
) -> Iterator[tuple[tuple[int, str, str], Row]]:
    """Yield (run, cell, finished_at) and each row whose columns equal the chosen values, in the order of storing.

    Raises:
        ValueError: something is not as this module stores it.
    """
    where = " AND ".join(f"{column} = ?" for column in chosen) or "1"
    source = "FROM measurement JOIN cell ON cell.id = cell_id JOIN run ON run.id = cell.run_id"
    values = tuple(chosen.values())
    own: dict[str, dict[int, dict[str, Any]]] = {}
    kinds = stored_kinds(database)
    for table, own_columns in kinds.items():
        names = ", ".join(["measurement_id", *(f'"{table}"."{name}"' for name in own_columns)])
        query = f'SELECT {names} {source} JOIN "{table}" ON measurement_id = measurement.id WHERE {where}'
        own[table] = {
            number: {
                name: _decoded(value, one)
                for (name, one), value in zip(own_columns.items(), stored, strict=True)
            }
            for number, *stored in database.execute(query, values)
        }
    names = ", ".join(f"measurement.{name}" for name in ("id", "kind", *SHARED))
    query = f"SELECT cell.run_id, cell.name, cell.finished_at, {names} {source} WHERE {where} ORDER BY measurement.id"
    for run, cell, finished_at, number, kind, *stored in database.execute(query, values):
        row = _shared_values(dict(zip(SHARED, stored, strict=True)))
        cls = kind_of(kind, kinds.get(kind, {}))
        yield (run, cell, finished_at), typed(cls, row | own.get(kind, {}).get(number, {}))


def kind_of(table: str, own: Columns) -> type[Row]:
    """Return the class of a kind's rows; one that has the given columns if this program does not declare it."""
    return KINDS[table] if table in KINDS else _undeclared(table, tuple(own.items()))


@cache
def _undeclared(table: str, own: tuple[tuple[str, str], ...]) -> type[Row]:
    columns_ = [(name, _HINTS[one] | None, field(default=None)) for name, one in own]
    names = {name for name, _ in own}
    told = {
        role: next((name for name in of if name in names), "")
        for role, of in (("_who", ("backend", "strategy", "system")), ("_where", ("device", "mapping")))
    }
    kind: type[Row] = make_dataclass(
        table, columns_, bases=(Row,), namespace={"table": table, **told}, frozen=True, kw_only=True
    )
    return kind


def typed(kind: type[Row], values: Mapping[str, Any]) -> Row:
    """Return a stored row as an instance of its kind.

    A column that the kind has no longer is left out, and one that holds nothing has the kind's default.
    """
    own = columns(kind)
    return kind(
        **{
            name: value
            for name, value in values.items()
            if name in SHARED or (name in own and value is not None)
        }
    )


def flat(row: Row) -> dict[str, Any]:
    """Return a row's kind and its columns by name, as text, numbers and None, for a table of rows of all kinds."""
    own = {name: _encoded(row, name, one) for name, one in columns(type(row)).items()}
    return {"kind": row.table} | {name: _plain(name, getattr(row, name)) for name in SHARED} | own


def from_flat(values: Mapping[str, Any]) -> Row:
    """Return the row of a line of a table (`flat`); one of a kind that is not declared has the columns that it states.

    Raises:
        ValueError, TypeError, KeyError: it is no line that `flat` returned.
    """
    if (kind := KINDS.get(values["kind"])) is None:
        stated = {
            name: one for name, one in values.items() if name not in (*SHARED, "kind") and one is not None
        }
        kind = kind_of(
            values["kind"], {name: _SCALARS.get(type(one), "text") for name, one in stated.items()}
        )
    own = {name: _decoded(values.get(name), one) for name, one in columns(kind).items()}
    size = values["batch_size"]
    return typed(kind, _shared_values(values) | {"batch_size": None if size is None else int(size)} | own)


def _shared_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of every row from what is stored of them."""
    row = {name: values[name] for name in SHARED}
    row["samples"] = tuple(parsed(row["samples"], list))
    row["timed"] = HowTimed(**parsed(row["timed"], dict))
    row["notes"] = parsed(row["notes"], dict)
    row["precisions"] = tuple(parsed(row["precisions"], list))
    if not row["unit"]:
        raise ValueError("unit: found ''; allowed: text that is not empty")
    return row


def _plain(name: str, value: Any) -> Any:
    if name == "timed":
        return json.dumps(value.to_json(), allow_nan=False)
    if name in ("samples", "notes", "precisions"):
        return json.dumps(value, allow_nan=False)
    return str(value) if name == "provenance" else value


def _encoded(row: Row, name: str, one: str) -> Any:
    """Return what is stored of a row's own column; TypeError if the column cannot hold its value."""
    value = getattr(row, name)
    if isinstance(value, np.generic):  # a count or a flag of NumPy is one as good
        value = value.item()
    if value is None:
        return None
    if one == "json":
        return json.dumps(value, allow_nan=False)
    if not fits(value, one):
        raise TypeError(f"{type(row).__name__}.{name}: found {value!r}; allowed: {one}")
    return _DECODERS[one](value)


def _decoded(value: Any, one: str) -> Any:
    if value is None:
        return None
    return _DECODERS[one](value)


def parsed(text: str, kind: type) -> Any:
    """Return what a JSON text holds.

    Raises:
        ValueError: it holds something else than `kind`, or is no JSON.
    """
    value = json.loads(text)
    if not isinstance(value, kind):
        raise ValueError(f"JSON: found {type(value).__name__}; allowed: {kind.__name__}")
    return value
