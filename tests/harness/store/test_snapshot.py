"""Stores are read whole or refused: copies of the one file, copies cut short, and what earlier versions left behind."""

import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.harness.core.errors import UserError
from placerl.harness.store.snapshot import snapshot
from placerl.harness.store.store import Store
from tests.harness.store.rows import row

CELLS = ["a", "b", "c"]


def stored(path: Path) -> Path:
    with Store.open(path) as store:
        run = store.begin_run("quick", "r", {"fingerprint": "f"})
        for cell in CELLS[:2]:
            run.finish(cell, [replace(row(1.0), samples=(0.5,) * 300)] * 7)
    return path


def killed_earlier_version(path: Path, journal_mode: str, *, in_commit: bool = False) -> Path:
    """A store as an earlier version leaves it that is killed after, or in the middle of, the commit of cell "c"."""
    stored(path)
    if os.fork() == 0:
        database = sqlite3.connect(path, isolation_level=None)
        database.execute(f"PRAGMA journal_mode = {journal_mode}")
        database.execute("PRAGMA cache_size = 1")  # pages reach the file before the commit
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO cell (run_id, name, finished_at) VALUES (1, 'c', '')")
        columns = ", ".join(
            c for _, c, *_ in database.execute("PRAGMA table_info(measurement)") if c not in ("id", "cell_id")
        )
        for _ in range(20):
            database.execute(
                f"INSERT INTO measurement (cell_id, {columns}) SELECT 3, {columns} FROM measurement WHERE cell_id = 1"
            )
        if not in_commit:
            database.execute("COMMIT")
        os._exit(0)  # without closing
    os.wait()
    return path


def content(path: Path) -> tuple[list[str], int]:
    with Store.open(path, read_only=True) as store:
        assert {m.unit for m in store.measurements()} == {row(1.0).unit}
        return store.cells(1), len(store.measurements())


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


ALL, BUT_THE_LAST = (CELLS, 2 * 7 + 20 * 7), (CELLS[:2], 2 * 7)


@pytest.mark.parametrize(
    ("journal_mode", "in_commit", "beside", "expected"),
    [
        ("wal", False, "-wal", ALL),
        ("wal", True, "-wal", BUT_THE_LAST),
        ("delete", True, "-journal", BUT_THE_LAST),
    ],
)
def test_what_a_killed_earlier_version_left_is_read_whole_and_left_alone(
    tmp_path: Path, journal_mode: str, in_commit: bool, beside: str, expected: tuple[list[str], int]
) -> None:
    path = killed_earlier_version(tmp_path / "old.sqlite", journal_mode, in_commit=in_commit)
    before = files(tmp_path)
    assert path.with_name(path.name + beside).exists()
    assert content(path) == expected
    assert files(tmp_path) == before, "a reader changes nothing, so it needs no right to"
    with Store.open(path) as store:
        store.begin_run("quick", "r", {"fingerprint": "f"}).finish("d", [row(1.0)])
    assert [path.name for path in tmp_path.iterdir()] == [path.name], "one file from the first change on"
    assert content(path) == ([*expected[0], "d"], expected[1] + 1)


def test_a_store_of_an_earlier_version_is_read_after_a_kill_in_the_middle_of_a_checkpoint(
    tmp_path: Path,
) -> None:
    path = killed_earlier_version(tmp_path / "old.sqlite", "wal")
    journal = Path(f"{path}-wal").read_bytes()
    # What a checkpoint has written after its first page: the newest header, and none of the pages it counts.
    page_bytes = int.from_bytes(journal[8:12], "big")
    pages = range(32, len(journal), 24 + page_bytes)
    newest = [at for at in pages if int.from_bytes(journal[at : at + 4], "big") == 1][-1]
    with path.open("r+b") as file:
        file.write(journal[newest + 24 : newest + 24 + page_bytes])
    assert content(path) == ALL


def test_a_copy_of_an_earlier_version_s_store_without_its_wal_is_refused(tmp_path: Path) -> None:
    path = killed_earlier_version(tmp_path / "old.sqlite", "wal")
    copy = tmp_path / "copy" / "old.sqlite"
    copy.parent.mkdir()
    shutil.copy(path, copy)
    for read_only in (True, False):
        with pytest.raises(UserError, match=r"may lack finished cells; allowed: .*old\.sqlite-wal"):
            Store.open(copy, read_only=read_only)
    shutil.copy(f"{path}-wal", f"{copy}-wal")
    assert content(copy) == ALL


def test_the_refusal_names_a_command_that_accepts_a_store_that_was_left_whole(tmp_path: Path) -> None:
    """As a kill between the removal of the -wal file and the change of the header leaves it."""
    path = killed_earlier_version(tmp_path / "it's old.sqlite", "wal")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT count(*) FROM run").fetchone()
    assert not Path(f"{path}-wal").exists()
    with pytest.raises(UserError, match="if there is none, `python -c ") as refused:
        Store.open(path)
    _, command, _ = str(refused.value).split("`")
    words = [sys.executable, *shlex.split(command)[1:]]
    subprocess.run(words, cwd=tmp_path, check=True)
    assert content(path) == ALL


def test_a_wal_of_another_store_is_refused(tmp_path: Path) -> None:
    old = killed_earlier_version(tmp_path / "old.sqlite", "wal")
    new = stored(tmp_path / "new" / "old.sqlite")
    shutil.copy(f"{old}-wal", f"{new}-wal")
    for read_only in (True, False):
        with pytest.raises(UserError, match="a file of another store"):
            Store.open(new, read_only=read_only)


def test_a_journal_that_names_other_files_is_refused(tmp_path: Path) -> None:
    path = stored(tmp_path / "store.sqlite")
    Path(f"{path}-journal").write_bytes(bytes(600) + bytes.fromhex("d9d505f920a163d7"))
    for read_only in (True, False):
        with pytest.raises(UserError, match="names other files"):
            Store.open(path, read_only=read_only)


def test_a_reader_sees_the_store_as_it_was_when_it_was_opened(tmp_path: Path) -> None:
    path = stored(tmp_path / "store.sqlite")
    with Store.open(path, read_only=True) as reader, Store.open(path) as other, Store.open(path) as writer:
        run = writer.begin_run("quick", "r", {"fingerprint": "f"})
        run.finish("c", [row(1.0)])
        assert reader.cells(1) == CELLS[:2]
        assert other.cells(1) == CELLS, "a store that may write knows what it will change"
        with pytest.raises(sqlite3.ProgrammingError, match="only read"):
            reader.begin_run("quick", "r", {"fingerprint": "f"})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return stored(tmp_path_factory.mktemp("whole") / "store.sqlite").read_bytes()


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_a_copy_that_was_cut_short_is_refused(
    whole: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    length = data.draw(
        st.integers(0, len(whole) - 1) | st.integers(0, len(whole) // 4096 - 1).map(lambda n: 4096 * n)
    )
    path = tmp_path_factory.mktemp("cut") / "store.sqlite"
    path.write_bytes(whole[:length])
    with pytest.raises(UserError):
        content(path)


def test_a_copy_made_in_the_middle_of_a_change_is_whole(tmp_path: Path) -> None:
    path = stored(tmp_path / "store.sqlite")
    with Store.open(path) as store, path.open("rb") as copied:
        first = copied.read(5000)
        store.begin_run("quick", "r", {"fingerprint": "f"}).finish(
            "c", [replace(row(1.0), samples=(0.5,) * 3000)]
        )
        copy = tmp_path / "copy.sqlite"
        copy.write_bytes(first + copied.read())
    assert content(copy) == BUT_THE_LAST


@pytest.mark.parametrize("kind", ["another program's", "with another table"])
def test_what_is_no_store_is_refused_and_closed(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "other.sqlite"
    if kind == "with another table":
        stored(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE other (value)")
    with pytest.raises(UserError) as refused:
        snapshot(path)
    assert "other.sqlite" in str(refused.value)
    opened = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert str(path) not in opened
