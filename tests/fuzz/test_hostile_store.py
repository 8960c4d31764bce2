"""A store whose every text comes from a stranger: nothing is written outside the folder, and no markup gets through."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import silent
from placerl.harness.core.toml_models import LARGEST_FILE_BYTES, read_toml
from placerl.harness.plan import execution
from placerl.harness.report import export, site
from placerl.harness.store.cell import Cell
from placerl.harness.store.file import LARGEST_STORE_BYTES
from placerl.harness.store.rows import OtherResult
from placerl.harness.store.store import Store
from tests.harness.report import sample

MARKUP = "<img src=x onerror=alert(1)>"
HOSTILE = ("../../../outside", "..", ".hidden", MARKUP, f"\\\"'`${{}}{MARKUP}")
TEXTS = ("workload", "primitive", "quantity", "unit")
OWN_TEXTS = ("backend", "device")


def columns_of(database: sqlite3.Connection, table: str) -> set[str]:
    return {column for _, column, *_ in database.execute(f"PRAGMA table_info({table})")}


def spoil(path: Path, outside: Path) -> None:
    """Puts strangers' texts, an absolute path among them, wherever a store holds text that need be no word of ours."""
    hostile = (*HOSTILE, str(outside))
    database = sqlite3.connect(path)
    chosen = "CASE id % {} {} END".format(
        len(hostile), " ".join(f"WHEN {number} THEN ?{number + 1}" for number in range(len(hostile)))
    )
    with database:
        for column in ("fingerprint", "revision", "tier"):
            database.execute(f"UPDATE run SET {column} = {chosen} || id", hostile)
        for column in TEXTS:
            database.execute(f"UPDATE measurement SET {column} = {chosen} WHERE id % 5 = 0", hostile)
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        own = [
            (table, column)
            for table in tables
            for column in OWN_TEXTS
            if column in columns_of(database, table)
        ]
        assert own
        for table, column in own:
            chosen_there = chosen.replace("id", "measurement_id")
            database.execute(f"UPDATE {table} SET {column} = {chosen_there}", hostile)
        database.execute(f"UPDATE cell SET name = {chosen} || id", hostile)
        database.execute(f"UPDATE measurement SET reason = {chosen} WHERE reason != ''", hostile)
    database.close()


@pytest.mark.slow
@pytest.mark.long  # a report of many machines
def test_what_strangers_wrote_stays_in_the_folder_and_is_only_text(tmp_path: Path) -> None:
    results = tmp_path / "deep" / "results"
    path = sample.write(results / "placerl.sqlite")
    with Store.open(path) as store:
        while (runs := len(store.runs())) <= len(HOSTILE):  # one for each text, the absolute path among them
            machine = {"fingerprint": f"machine {runs}", "cpu": {"model": MARKUP}}
            run = store.begin_run("quick", "r", machine)
            run.finish("a", list(sample.rows())[:20])
    spoil(path, tmp_path / "elsewhere" / "placerl-outside")
    site.write(path, results / "report")
    export.write(path, results / "export", tuple(export.FORMATS))
    outside = {
        each
        for each in tmp_path.rglob("*")
        if each.is_file() and results not in each.parents and each != results
    }
    assert outside == set()
    assert not (tmp_path / "elsewhere").exists()
    pages = list(results.rglob("*.html"))
    assert len(pages) > len(HOSTILE)
    for page in pages:
        assert MARKUP not in page.read_text(encoding="utf-8")


ROW = OtherResult(
    suite="s", primitive="p", quantity="q", unit="s", provenance="measured", value=1.0
)  # fmt: skip


def store_at(path: Path) -> Path:
    """A store of ours."""
    with Store.open(path) as store:
        store.begin_run("quick", "r", {"fingerprint": "f"}).finish("a", [ROW])
    return path


def go_on(path: Path, *, read_only: bool = False) -> None:
    """Measures one more cell."""
    with Store.open(path, read_only=read_only) as store:
        run = store.begin_run("quick", "r", {"fingerprint": "f"})
        execution.execute(run, [Cell("b", 1, lambda run, report: [ROW])], silent)


def test_a_stored_row_without_a_unit_is_given_none(tmp_path: Path) -> None:
    """Not even where the unit of its quantity is declared."""
    path = store_at(tmp_path / "placerl.sqlite")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE measurement SET unit = '', quantity = 'time_per_call'")
    with Store.open(path, read_only=True) as store, pytest.raises(UserError, match="unit: found ''"):
        store.frame()


@pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm", "-writer", "-in-hand"])
def test_no_link_beside_a_store_is_followed(suffix: str, tmp_path: Path) -> None:
    path = store_at(tmp_path / "theirs" / "placerl.sqlite")
    precious, none_yet = tmp_path / "precious", tmp_path / "none-yet"
    precious.write_text("precious")
    for target in (precious, none_yet):
        link = path.with_name(path.name + suffix)
        link.symlink_to(target)
        for read_only in (True, False):
            with pytest.raises(UserError, match="a link, or something that is no file"):
                go_on(path, read_only=read_only)
        link.unlink()
    assert precious.read_text() == "precious"
    assert not none_yet.exists()


@pytest.mark.parametrize("noted", ["Infinity", "NaN", '"x"', "[" * 100_000])
def test_what_a_stranger_noted_as_the_cell_in_hand_stops_nothing(noted: str, tmp_path: Path) -> None:
    path = store_at(tmp_path / "placerl.sqlite")
    path.with_name("placerl.sqlite-in-hand").write_text(f'{{"cell": "b", "deaths": {noted}}}')
    go_on(path)
    with Store.open(path, read_only=True) as store:
        assert store.cells(1) == ["a", "b"]


def test_a_store_larger_than_any_of_ours_is_refused(tmp_path: Path) -> None:
    path = store_at(tmp_path / "store.sqlite")
    os.truncate(path, LARGEST_STORE_BYTES + 1)  # takes no room on the disk
    with pytest.raises(UserError, match="allowed: at most"):
        Store.open(path, read_only=True)


def test_a_value_larger_than_any_of_ours_is_refused(tmp_path: Path) -> None:
    path = store_at(tmp_path / "store.sqlite")
    database = sqlite3.connect(path)
    with database:
        database.execute("UPDATE measurement SET notes = ?", ('{"a": "' + "x" * (65 * 2**20) + '"}',))
    database.close()
    with Store.open(path, read_only=True) as store, pytest.raises(UserError, match="too big"):
        store.measurements()


def test_a_file_larger_than_any_of_ours_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.write_bytes(b"#" * (LARGEST_FILE_BYTES + 1))
    with pytest.raises(UserError, match=r"more than \d+ bytes"):
        read_toml(path)
    with pytest.raises(UserError, match="not a regular file"):
        read_toml(Path("/dev/zero"))
