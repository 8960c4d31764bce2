"""Stores from strangers: each is read and merged whole, or refused with one error of the promised kind."""

import json
import os
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placerl.harness.core.row import Row
from placerl.harness.store.store import Store
from tests.fuzz.fuzzing import A_DRAW, accepted, each, generators, many, several, values, whole
from tests.harness.old_form import row_of

pytestmark = whole


def _store_bytes(path, runs, cells, rows):
    row = {
        "suite": "s",
        "primitive": "p",
        "quantity": "q",
        "unit": "s",
        "provenance": "measured",
        "value": 1.0,
    }
    with Store.open(path) as store:
        for revision in range(runs):
            run = store.begin_run("quick", str(revision), {"fingerprint": "f"})
            for cell in range(cells):
                run.finish(str(cell), [row_of(**row, samples=(1.0, 2.0), details={"k": "v" * 200})] * rows)
    return path.read_bytes()


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A store of several pages."""
    return _store_bytes(tmp_path_factory.mktemp("original") / "store.sqlite", 1, 6, 3)


ROWS = 6


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A store of two runs, few rows each: what is spoiled is their content."""
    return _store_bytes(tmp_path_factory.mktemp("small") / "store.sqlite", 2, ROWS // 2, 1)


@pytest.fixture(scope="module")
def folder():
    """In memory where that is to be had: what is tried is how files are read, not the disk."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(prefix="placerl-", dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


def put(path, content):
    """Writes a file that is alone in its folder."""
    for beside in path.parent.iterdir():
        beside.unlink()
    path.write_bytes(content)


def use(path):
    """Everything that a report or a merge does with a store."""
    with Store.open(path, read_only=True) as store:
        runs, measurements = store.runs(), store.measurements()
        for run in runs:
            store.cells(run.id)
        return runs, measurements


@st.composite
def damages(draw):
    """Positions in a file and what comes there; a length to cut it to, or none."""
    rng, noise = draw(generators), draw(several(st.binary(max_size=8)))
    noise += [b"\xff" * 4, b"\0" * 4]

    def damage():
        # Headers of the file and of its pages are where a byte changes most.
        offsets = (rng.choice((rng.randint(0, 128), rng.randint(0, 4095))) for _ in range(rng.randint(1, 8)))
        spoilt = [(rng.random(), offset, rng.choice(noise)) for offset in offsets]
        return spoilt, rng.random() if rng.random() < 0.1 else None

    return [damage() for _ in range(A_DRAW)]


@many
@given(inputs=damages())
def test_store_bytes(original, folder, inputs):
    path = folder / "store.sqlite"
    for damage, cut in each(inputs):
        content = bytearray(original)
        for page, offset, noise in damage:
            start = min(len(content), 4096 * int(page * (len(original) // 4096 + 1)) + offset)
            content[start : start + 4] = noise
        if cut is not None:
            del content[int(cut * len(content)) :]
        put(path, content)
        found = accepted(lambda: use(path))
        if found is not None:
            assert all(isinstance(row, Row) for row in found[1])


def encodable(text):
    """Whether it can be written as UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


texts = st.text(max_size=30) | values.map(json.dumps) | st.sampled_from(["[1e999]", "[" * 9999])
MEASUREMENT = ("provenance", "status", "reason", "samples", "timed", "notes", "unit", "suite")
COLUMNS = [
    *(("measurement", name) for name in MEASUREMENT),
    *(("run", name) for name in ("key", "tier", "fingerprint", "machine", "started_at")),
    *(("cell", name) for name in ("name", "finished_at")),
]


@st.composite
def changes(draw):
    """Columns, the texts that a stranger has put there, and in which rows: all, every second, or one."""
    rng, found = draw(generators), draw(several(texts.filter(encodable)))

    def change():
        rows = rng.choice((1, 2, ROWS))
        return *rng.choice(COLUMNS), rng.choice(found), rows, rng.randrange(rows)

    return [[change() for _ in range(rng.randint(1, 3))] for _ in range(A_DRAW)]


def changed(original, change):
    """The bytes of a store with changes."""
    database = sqlite3.connect(":memory:")
    database.deserialize(original)
    with database:
        for table, column, text, rows, row in change:
            # A name or key that is there already is no change that a database would take.
            query = f"UPDATE OR IGNORE {table} SET {column} = ? WHERE id % ? = ?"
            database.execute(query, (text, rows, row))
    content = database.serialize()
    database.close()
    return content


@many
@given(inputs=changes())
def test_store_content(small, folder, inputs):
    path = folder / "content.sqlite"
    for change in each(inputs):
        put(path, changed(small, change))
        found = accepted(lambda: use(path))
        if found is not None:
            assert len(found[1]) == ROWS


@many
@given(inputs=changes())
def test_a_merge_takes_a_stranger_s_store_whole_or_not_at_all(small, folder, inputs):
    """The migration of rows from one store into another."""
    theirs, ours = folder / "theirs" / "store.sqlite", folder / "ours.sqlite"
    theirs.parent.mkdir(exist_ok=True)
    ours.write_bytes(small)
    with Store.open(ours) as store:
        runs, before = store.runs(), store.measurements()
        for change in each(inputs):
            put(theirs, changed(small, change))
            with Store.open(theirs, read_only=True) as other:
                copied = accepted(lambda other=other: store.copy_from(other))
            rows = store.measurements()
            assert rows[: len(before)] == before, "what was there is as it was"
            assert len(rows) == len(before) + (copied or 0)
            assert store.runs()[: len(runs)] == runs
            if copied is None:
                assert len(store.runs()) == len(runs), "nothing of a store that is refused"
            emptied(store, runs[-1].id, len(before))


def emptied(store, run, measurements):
    """Takes out again what a merge has brought, so that the next input finds the store as it was."""
    with store.writing() as database:
        database.execute("DELETE FROM measurement WHERE id > ?", (measurements,))
        database.execute("DELETE FROM cell WHERE id > ?", (measurements,))
        database.execute("DELETE FROM run WHERE id > ?", (run,))
