import hashlib
import json
import random
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.harness.core.errors import UserError
from placerl.harness.store.file import connect
from placerl.harness.store.lock import WriterLock
from placerl.harness.store.rows import PieceTime
from placerl.harness.store.store import APPLICATION_ID, SCHEMA_VERSION, Store

MACHINE = {"fingerprint": "f00d", "cpu": {"model": "test"}}


def measurement(**change):
    row = {
        "suite": "profile",
        "workload": "hopper-ddpg",
        "primitive": "sum_tree.sample",
        "backend": "native",
        "device": "cpu",
        "batch_size": 256,
        "quantity": "time_per_call",
        "unit": "s",
        "provenance": "measured",
        "value": 1e-6,
        "low": 0.9e-6,
        "high": 1.1e-6,
        "samples": (1e-6, 0.1 + 0.2, 5e-324),
        "notes": {"threads": 1, "nested": {"a": [1, None, "ü"]}},
    }
    return PieceTime(**row | change)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "store.sqlite"


def test_what_is_written_is_read_back_exactly(path):
    rows = [
        measurement(),
        measurement(status="not_run", reason="needs CUDA", value=None, low=None, high=None, samples=()),
        measurement(status="too_noisy", reason="wide", batch_size=None, provenance="modelled"),
    ]
    with Store.open(path) as store:
        store.begin_run("quick", "r1", MACHINE).finish("cell", rows)
    with Store.open(path, read_only=True) as store:
        assert store.measurements() == rows
        assert store.runs()[0].machine == MACHINE


finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=50, deadline=None)
@given(
    samples=st.lists(finite, max_size=5),
    value=finite,
    name=st.text(st.characters(codec="utf-8").filter(str.isprintable)),
    text=st.text(st.characters(codec="utf-8")),
)
def test_any_number_and_text_survives(tmp_path_factory, samples, value, name, text):
    row = measurement(samples=samples, value=value, notes={text: text}, workload=name)
    with Store.open(tmp_path_factory.mktemp("s") / "store.sqlite") as store:
        store.begin_run("quick", "r1", MACHINE).finish("cell", [row])
        assert store.measurements() == [row]


def test_same_identity_resumes_and_any_difference_begins_anew(path):
    with Store.open(path) as store:
        first = store.begin_run("quick", "r1", MACHINE)
        first.finish("a", [measurement()])
    with Store.open(path) as store:
        again = store.begin_run("quick", "r1", MACHINE)
        assert again.record == first.record
        assert again.finished("a")
        assert not again.finished("b")
        others = [
            store.begin_run("standard", "r1", MACHINE),
            store.begin_run("quick", "r2", MACHINE),
            store.begin_run("quick", "r1", {"fingerprint": "beef"}),
            store.begin_run("quick", "r1", MACHINE, fresh=True),
        ]
        assert not any(run.finished("a") for run in others)
        assert len(store.runs()) == 5
        assert store.begin_run("quick", "r1", MACHINE).record == others[-1].record


def test_a_cell_is_finished_once(path):
    with Store.open(path) as store:
        run = store.begin_run("quick", "r1", MACHINE)
        run.finish("a", [measurement()])
        with pytest.raises(ValueError, match="'a'"):
            run.finish("a", [measurement(), measurement()])
        with pytest.raises(ValueError, match="found 0"):
            run.finish("b", [])
        assert len(store.measurements()) == 1
        assert store.cells(run.record.id) == ["a"]


def test_frame_has_a_row_per_measurement_with_its_run_and_cell(path):
    with Store.open(path) as store:
        assert len(store.frame()) == 0
        store.begin_run("quick", "r1", MACHINE).finish("a", [measurement(), measurement(batch_size=None)])
        store.begin_run("quick", "r2", MACHINE).finish(
            "a", [measurement(status="failed", reason="crash", value=None, low=None, high=None)]
        )
        frame = store.frame()
        assert list(frame["revision"]) == ["r1", "r1", "r2"]
        assert list(frame["provenance"]) == ["measured"] * 3
        assert frame["batch_size"].dtype == "Int64"
        assert frame["batch_size"].isna().tolist() == [False, True, False]
        assert frame["value"].isna().tolist() == [False, False, True]
        assert frame["samples"].iloc[0] == measurement().samples
        assert len(store.frame(run=2)) == 1


def test_filters(path):
    with Store.open(path) as store:
        run = store.begin_run("quick", "r1", MACHINE)
        run.finish("a", [measurement(), measurement(suite="run", primitive="training")])
        run.finish("b", [measurement(workload="cartpole-dqn")])
        assert len(store.measurements(cell="a")) == 2
        assert len(store.measurements(suite="run")) == 1
        assert len(store.measurements(workload="cartpole-dqn", run=1)) == 1
        assert store.measurements(primitive="training", cell="b") == []
        assert len(store.measurements(batch_size=256)) == 3
        assert store.begin_run("quick", "r2", MACHINE).measurements() == []
        assert len(run.measurements(cell="a", suite="run")) == 1


def test_copying_another_store_adds_what_is_missing(tmp_path):
    with Store.open(tmp_path / "a") as a, Store.open(tmp_path / "b") as b:
        a.begin_run("quick", "r1", MACHINE).finish("x", [measurement()])
        b.begin_run("quick", "r1", {"fingerprint": "other"}).finish("x", [measurement(), measurement()])
        assert a.copy_from(b) == 1
        assert a.copy_from(b) == 0
        assert [len(a.measurements(run=r.id)) for r in a.runs()] == [1, 2]
        assert a.runs()[1].fingerprint == "other"


# Files that are refused, and left as they are


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def assert_refused_untouched(path, named):
    before, beside = digest(path), sorted(path.parent.iterdir())
    for read_only in (False, True):
        with pytest.raises(UserError, match=named) as caught:
            Store.open(path, read_only=read_only)
        assert str(path) in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1
    assert digest(path) == before
    assert sorted(path.parent.iterdir()) == beside


@pytest.mark.parametrize("version", [0, SCHEMA_VERSION + 1])
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_another_schema_version_is_refused(tmp_path, version, journal):
    path = tmp_path / "store.sqlite"
    Store.open(path).close()
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA journal_mode = {journal}")
    database.execute(f"PRAGMA user_version = {version}")
    database.close()
    assert_refused_untouched(
        path, f"schema version: found {version}; allowed: {SCHEMA_VERSION - 1} or {SCHEMA_VERSION}"
    )


@pytest.mark.parametrize("content", [b"", b"x" * 5000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_refused(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    assert_refused_untouched(path, "no PlaceRL store")


def test_another_programs_database_is_refused(tmp_path):
    path = tmp_path / "other.sqlite"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE run (id)")
    database.close()
    assert_refused_untouched(path, "no PlaceRL store")


def test_a_store_with_a_trigger_is_refused(path):
    Store.open(path).close()
    database = sqlite3.connect(path)
    database.execute("CREATE TRIGGER t AFTER INSERT ON cell BEGIN DELETE FROM measurement; END")
    database.close()
    with pytest.raises(UserError, match="other tables"):
        Store.open(path)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("samples", "[1, NaN]"),
        ("samples", "{}"),
        ("samples", "[" * 100_000),
        ("notes", "[]"),
        ("notes", "no JSON"),
        ("timed", "[]"),
        ("precisions", "{}"),
        ("provenance", "guessed"),
        ("value", 9e999),
        ("batch_size", -1),
    ],
)
def test_content_that_is_no_measurement_is_one_clear_error(path, column, value):
    with Store.open(path) as store:
        store.begin_run("quick", "r1", MACHINE).finish("a", [measurement()])
    database = sqlite3.connect(path)
    with database:
        database.execute(f"UPDATE measurement SET {column} = ?", (value,))
    database.close()
    with Store.open(path, read_only=True) as store, pytest.raises(UserError, match="store content"):
        store.measurements()


def test_cells_of_no_run_are_left_out(path):
    with Store.open(path) as store:
        store.begin_run("quick", "r1", MACHINE).finish("a", [measurement()])
    database = sqlite3.connect(path)
    with database:
        database.execute("UPDATE cell SET run_id = 99")
    database.close()
    with Store.open(path, read_only=True) as store:
        assert store.measurements() == []
        assert len(store.frame()) == 0


def test_a_closed_store_is_a_mistake_in_the_code(path):
    store = Store.open(path)
    store.close()
    with pytest.raises(sqlite3.ProgrammingError):
        store.runs()


def test_a_damaged_page_is_one_clear_error(path):
    with Store.open(path) as store:
        run = store.begin_run("quick", "r1", MACHINE)
        for cell in range(50):
            run.finish(str(cell), [measurement()])
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(UserError), Store.open(path) as store:
        store.measurements()


def test_read_only_makes_nothing(path):
    with pytest.raises(UserError, match="no such file"):
        Store.open(path, read_only=True)
    assert not path.parent.exists()


def test_a_folder_that_cannot_be_written_is_refused_and_nothing_written(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    for bad in (tmp_path / "file" / "store.sqlite", tmp_path / "file" / "deeper" / "store.sqlite", tmp_path):
        with pytest.raises(UserError, match="allowed"):
            Store.open(bad)
    with pytest.raises(UserError, match="allowed"):
        Store.open("/proc/placerl/store.sqlite")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_closing_leaves_one_file(path):
    with Store.open(path) as store:
        store.begin_run("quick", "r1", MACHINE).finish("a", [measurement()])
        with Store.open(path, read_only=True) as reader:
            assert len(reader.measurements()) == 1
    store.close()  # again is harmless
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    with Store.open(path, read_only=True) as reader:
        assert len(reader.measurements()) == 1
        assert [p.name for p in path.parent.iterdir()] == [path.name]
    header = path.read_bytes()[:100]
    assert int.from_bytes(header[60:64], "big") == SCHEMA_VERSION
    assert int.from_bytes(header[68:72], "big") == APPLICATION_ID


def test_closing_beside_a_reader_loses_nothing(path):
    store = Store.open(path)
    run = store.begin_run("quick", "r1", MACHINE)
    run.finish("a", [measurement()])
    with Store.open(path, read_only=True) as reader:
        with reader.reading() as database:
            database.execute("BEGIN")
            database.execute("SELECT count(*) FROM cell").fetchone()
        run.finish("b", [measurement()])
        store.close()
        assert reader.cells(run.record.id) == ["a"]
    with Store.open(path) as store:
        assert store.cells(run.record.id) == ["a", "b"]


# Other processes


def start(code, *arguments):
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_second_writer_is_refused_while_readers_are_not(path):
    holder = start(
        """
        import sys
        from placerl.harness.store.store import Store
        run = Store.open(sys.argv[1]).begin_run("quick", "r1", {"fingerprint": "f"})
        print("ready", flush=True)
        import time; time.sleep(3600)
        """,
        path,
    )
    try:
        assert holder.stdout.readline() == "ready\n"
        with Store.open(path) as store:
            assert len(store.runs()) == 1
            with pytest.raises(UserError, match="locked by another process"):
                store.begin_run("quick", "r2", MACHINE)
            assert len(store.runs()) == 1
    finally:
        holder.kill()
        holder.wait()
    with Store.open(path) as store:  # a dead holder's lock is gone with it
        store.begin_run("quick", "r2", MACHINE)


def test_a_lock_that_its_last_holder_removes_meanwhile_is_taken_from_scratch(path, monkeypatch):
    path.parent.mkdir()
    removed, stat = [], Path.stat

    def removing(self, **options):
        if self.name.endswith("-writer") and not removed:
            self.unlink()
            removed.append(self)
        return stat(self, **options)

    monkeypatch.setattr(Path, "exists", lambda self, **options: True)
    monkeypatch.setattr(Path, "stat", removing)
    lock = WriterLock(path)
    monkeypatch.undo()
    assert removed == [path.with_name("store.sqlite-writer")]
    assert removed[0].exists()
    lock.release()
    assert not removed[0].exists()


def test_a_file_locked_through_sqlite_is_a_clear_error(path):
    Store.open(path).close()
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(UserError, match="locked by another"), Store.open(path, timeout_s=0.05) as store:
            store.begin_run("quick", "r1", MACHINE)
        with Store.open(path, read_only=True) as store:
            assert store.runs() == []
    finally:
        database.close()


def test_a_full_disk_fails_the_cell_whole(path, monkeypatch):
    with Store.open(path) as store:
        run = store.begin_run("quick", "r1", MACHINE)
        run.finish("small", [measurement()])
        before = digest(path)

        def small(*arguments):
            database = connect(*arguments)
            database.execute(f"PRAGMA max_page_count = {path.stat().st_size // 4096 + 2}")
            return database

        with monkeypatch.context() as patch:
            patch.setattr("placerl.harness.store.draft.connect", small)
            with pytest.raises(UserError, match="full"):
                run.finish("big", [measurement(notes={"text": "x" * 100_000})])
        assert digest(path) == before
        assert not run.finished("big")
        assert len(store.measurements()) == 1
        run.finish("big", [measurement()])


WRITER = """
    import sys
    from placerl.harness.store.rows import OtherResult
    from placerl.harness.store.store import Store
    row = OtherResult(suite="s", primitive="p", quantity="q", unit="s", provenance="measured", value=1.0,
                      samples=(0.5,) * 300)
    run = Store.open(sys.argv[1]).begin_run("quick", "r1", {"fingerprint": "f"})
    for cell in range(100_000):
        if not run.finished(str(cell)):
            run.finish(str(cell), [row] * 7)
            print(cell, flush=True)
"""


def test_kill_at_any_moment_loses_nothing_and_halves_nothing(path):
    chance = random.Random(0)
    announced = set()
    for _ in range(8):
        writer = start(WRITER, path)
        first = writer.stdout.readline()
        time.sleep(chance.uniform(0, 0.15))
        writer.kill()
        announced |= {line.strip() for line in [first, *writer.stdout] if line.endswith("\n")}
        writer.wait()
        with Store.open(path) as store:
            (run,) = store.runs()
            cells = store.cells(run.id)
            assert announced <= set(cells)
            assert len(cells) == len(set(cells))
            frame = store.frame()
            assert (frame.groupby("cell").size() == 7).all()
            assert set(frame["cell"]) == set(cells)
            assert sorted(map(int, cells)) == list(range(len(cells)))


def test_kill_while_the_store_is_made_leaves_none_or_a_whole_one(tmp_path):
    chance = random.Random(1)
    for attempt in range(6):
        path = tmp_path / f"{attempt}.sqlite"
        writer = start(WRITER, path)
        deadline = time.monotonic() + 800
        while not path.exists() and time.monotonic() < deadline:
            pass
        time.sleep(chance.uniform(0, 0.004))
        writer.kill()
        writer.communicate()
        with Store.open(path) as store:
            assert len(store.runs()) <= 1
            store.begin_run("quick", "r1", {"fingerprint": "f"})


def test_a_process_that_forgets_to_close_leaves_one_file(path):
    code = """
        import os, sys
        from placerl.harness.store.store import Store
        store = Store.open(sys.argv[1])
        store.begin_run("quick", "r1", {"fingerprint": "f"})
        if os.fork() == 0:
            sys.exit(0)  # a child that runs its exit handlers
        os.wait()
        assert os.path.exists(sys.argv[1] + "-writer")
    """
    process = start(code, path)
    process.communicate(timeout=800)
    assert process.returncode == 0
    with Store.open(path, read_only=True) as store:
        assert len(store.runs()) == 1
        assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_no_pickle_in_the_file(path):
    with Store.open(path) as store:
        store.begin_run("quick", "r1", MACHINE).finish("a", [measurement()])
    database = sqlite3.connect(path)
    ((samples, notes),) = database.execute("SELECT samples, notes FROM measurement").fetchall()
    database.close()
    assert tuple(json.loads(samples)) == measurement().samples
    assert json.loads(notes) == measurement().notes
