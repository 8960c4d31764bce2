"""Stores from strangers: each is read and merged whole, or refused with one error of the promised kind."""

import json
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.store import Measurement, Store
from tests.fuzz.fuzzing import accepted, many, values, whole

pytestmark = whole


def _store_bytes(folder):
    path = folder / "original.sqlite"
    row = {
        "suite": "s",
        "primitive": "p",
        "quantity": "q",
        "unit": "s",
        "provenance": "measured",
        "value": 1.0,
    }
    with Store.open(path) as store:
        run = store.begin_run("quick", "r", {"fingerprint": "f"})
        for cell in range(6):
            run.finish(str(cell), [Measurement(**row, samples=(1.0, 2.0), details={"k": "v" * 200})] * 3)
    return path.read_bytes()


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return _store_bytes(tmp_path_factory.mktemp("original"))


def use(path):
    """Everything that a report or a merge does with a store."""
    with Store.open(path, read_only=True) as store:
        runs, measurements = store.runs(), store.measurements()
        for run in runs:
            store.cells(run.id)
        return runs, measurements


@many
@given(data=st.data())
def test_store_bytes(original, tmp_path, data):
    content = bytearray(original)
    for _ in range(data.draw(st.integers(1, 8))):
        # Headers of the file and of its pages are where a byte changes most.
        page = 4096 * data.draw(st.integers(0, len(original) // 4096))
        start = min(len(content), page + data.draw(st.integers(0, 128) | st.integers(0, 4095)))
        content[start : start + 4] = data.draw(
            st.binary(max_size=8) | st.sampled_from([b"\xff" * 4, b"\0" * 4])
        )
    if data.draw(st.integers(0, 9)) == 0:
        del content[data.draw(st.integers(0, len(content))) :]
    path = tmp_path / "store.sqlite"
    for beside in tmp_path.iterdir():
        beside.unlink()
    path.write_bytes(content)
    found = accepted(lambda: use(path))
    if found is not None:
        assert all(isinstance(row, Measurement) for row in found[1])


texts = (
    st.text(max_size=30)
    | values.map(lambda value: json.dumps(value))
    | st.sampled_from(["[1e999]", "[" * 9999])
)


def encodable(text):
    """Whether it can be written as UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


TEXT_COLUMNS = [
    *(("measurement", name) for name in ("provenance", "status", "reason", "samples", "details", "unit")),
    *(("run", name) for name in ("key", "tier", "fingerprint", "machine", "started_at")),
    *(("cell", name) for name in ("name", "finished_at")),
]


@many
@given(
    column=st.sampled_from(["provenance", "status", "reason", "samples", "details", "unit", "suite"]),
    text=texts.filter(encodable),
)
def test_store_content(original, tmp_path, column, text):
    path = tmp_path / "content.sqlite"
    path.write_bytes(original)
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = MEMORY")
    with database:
        database.execute(f"UPDATE measurement SET {column} = ? WHERE id = 3", (text,))
    database.close()
    found = accepted(lambda: use(path))
    if found is not None:
        assert len(found[1]) == 18


@many
@given(data=st.data())
def test_a_merge_takes_a_stranger_s_store_whole_or_not_at_all(original, tmp_path, data):
    """The migration of rows from one store into another."""
    theirs, ours = tmp_path / "theirs.sqlite", tmp_path / "ours.sqlite"
    for beside in tmp_path.iterdir():
        beside.unlink()
    theirs.write_bytes(original)
    database = sqlite3.connect(theirs)
    database.execute("PRAGMA journal_mode = MEMORY")
    with database:
        for _ in range(data.draw(st.integers(1, 3))):
            table, column = data.draw(st.sampled_from(TEXT_COLUMNS))
            text = data.draw(texts.filter(encodable))
            # A name or key that is there already is no change that a database would take.
            database.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE id % 2 = 1", (text,))
    database.close()
    ours.write_bytes(original)
    with Store.open(ours) as store:
        before = store.measurements(run=1)
        with Store.open(theirs, read_only=True) as other:
            copied = accepted(lambda: store.copy_from(other))
        assert store.measurements(run=1)[: len(before)] == before, "what was there is as it was"
        rows = store.measurements()
        assert all(isinstance(row, Measurement) for row in rows)
        if copied is not None:
            assert len(rows) == len(before) + 3 * copied
