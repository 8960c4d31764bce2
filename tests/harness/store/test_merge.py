"""Merging stores: what is here stays as it is, a key is no proof, and the order of merges makes no difference."""

import itertools
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.harness.core.errors import UserError
from placerl.harness.store.store import Store
from tests.harness.store.rows import row

IDENTITY = {
    "tier": "full", "revision": "other", "fingerprint": "other", "machine": '{"fingerprint": "f", "cpu": 2}',
    "started_at": "2001-01-01T00:00:00Z",
}  # fmt: skip


def stored(path: Path, runs: dict[str, list[float]]) -> Path:
    """A store of runs by their key: each cell is named by its place, and has two rows of one value."""
    with Store.open(path) as store:
        for values in runs.values():
            run = store.begin_run("quick", "r", {"fingerprint": "f"}, fresh=True)
            with run.writing():
                for number, value in enumerate(values):
                    run.finish(str(number), [row(value), replace(row(value), samples=(value,))])
    keys = [f"UPDATE run SET key = '{key}' WHERE id = {n}" for n, key in enumerate(runs, 1)]
    spoil(path, "UPDATE run SET started_at = ''", "UPDATE cell SET finished_at = ''", *keys)
    return path


def spoil(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA synchronous = OFF")
        for statement in statements:
            database.execute(statement)


def content(path: Path) -> dict[str, list[tuple[str, Any]]]:
    with Store.open(path, read_only=True) as store:
        return {
            run.key: [(cell, store.measurements(run=run.id, cell=cell)) for cell in store.cells(run.id)]
            for run in store.runs()
        }


def merge(target: Path, *sources: Path) -> None:
    with Store.open(target) as store:
        for path in sources:
            with Store.open(path, read_only=True) as source:
                store.copy_from(source)


@pytest.mark.parametrize("field", IDENTITY)
def test_a_run_of_our_key_and_another_identity_is_refused(tmp_path: Path, field: str) -> None:
    ours = stored(tmp_path / "ours.sqlite", {"k": [1.0]})
    theirs = stored(tmp_path / "theirs.sqlite", {"k": [1.0, 2.0]})
    spoil(theirs, f"UPDATE run SET {field} = '{IDENTITY[field]}'")
    before = ours.read_bytes()
    with pytest.raises(UserError, match=rf"theirs\.sqlite: run 1 \(k\): found another {field} than"):
        merge(ours, theirs)
    assert ours.read_bytes() == before


FIRST = "(SELECT min(id) FROM measurement WHERE cell_id = 2)"


@pytest.mark.parametrize(
    "statement",
    [
        f"UPDATE measurement SET value = 1.5 WHERE id = {FIRST}",
        f"UPDATE measurement SET samples = '[2.0]' WHERE id = {FIRST}",
        f"DELETE FROM measurement WHERE id = {FIRST}",
        "UPDATE cell SET name = 'x' WHERE id = 2",
        "UPDATE cell SET finished_at = 'later' WHERE id = 2",
    ],
)
def test_a_run_that_does_not_begin_with_our_cells_is_refused(tmp_path: Path, statement: str) -> None:
    ours = stored(tmp_path / "ours.sqlite", {"k": [1.0]})
    theirs = stored(tmp_path / "theirs.sqlite", {"new": [3.0], "k": [1.0, 2.0]})
    spoil(theirs, statement)
    before = ours.read_bytes()
    with pytest.raises(UserError, match=r"theirs\.sqlite: run 2 \(k\): found another cell "):
        merge(ours, theirs)
    assert ours.read_bytes() == before, "not even the run that was new is taken in"


def test_a_run_that_went_on_gets_its_new_cells(tmp_path: Path) -> None:
    early = stored(tmp_path / "early.sqlite", {"k": [1.0]})
    later = stored(tmp_path / "later.sqlite", {"k": [1.0, 2.0]})
    merge(early, later)
    assert content(early) == content(later)
    before = early.read_bytes()
    merge(early, later, stored(tmp_path / "earlier.sqlite", {"k": []}))
    assert early.read_bytes() == before


values = st.sampled_from([1.0, 2.0])
stores = st.dictionaries(st.sampled_from("abc"), st.lists(values, max_size=3), max_size=3)


@pytest.fixture(scope="module")
def no_waiting_for_the_disk() -> Iterator[None]:
    """Nine tenths of an example's time: each of its hundred changes waits for the disk, which no result depends on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.mark.usefixtures("no_waiting_for_the_disk")
@settings(max_examples=20, deadline=None)
@given(runs=st.lists(stores, min_size=3, max_size=3))
def test_merges_change_no_run_and_their_order_makes_no_difference(
    tmp_path_factory: pytest.TempPathFactory, runs: list[dict[str, list[float]]]
) -> None:
    folder = tmp_path_factory.mktemp("merge")
    paths = [stored(folder / f"{number}.sqlite", one) for number, one in enumerate(runs)]
    sources = [content(path) for path in paths]
    results = []
    for turn, order in enumerate(itertools.permutations(range(3))):
        target, refused, before = folder / f"target{turn}.sqlite", False, {}
        for number in order:
            try:
                merge(target, paths[number])
                after = content(target)
            except UserError:
                refused = True
                after = content(target)
                assert after == before
            for key, cells in before.items():
                assert after[key][: len(cells)] == cells
                if len(after[key]) > len(cells):
                    assert after[key] == sources[number][key], "only its continuation adds to a run"
            before = after
            if turn == 0:
                unchanged = target.read_bytes()
                with suppress(UserError):
                    merge(target, paths[number])
                assert target.read_bytes() == unchanged, "a second time adds nothing"
        results.append(None if refused else before)
    assert all(result == results[0] for result in results)
