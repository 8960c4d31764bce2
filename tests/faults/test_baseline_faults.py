"""Baselines that misbehave in the middle of a cell: a failure with a name each, and nothing of them is left."""

import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from placerl.harness import workloads
from placerl.harness.compare import protocol, registry, rounds
from placerl.harness.compare.protocol import FailureKind, Worker
from placerl.harness.core.progress import silent
from placerl.harness.mapping import Mapping
from placerl.harness.plan import execution
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Store
from tests.faults import named_memory
from tests.harness.old_form import row_of

pytestmark = pytest.mark.timeout(900)
NASTY = Path(__file__).parents[1] / "harness" / "compare" / "nasty_worker.py"
MACHINE = {"fingerprint": "faults"}
HANG_LIMIT_S = 3.0
HANGS = ("stderr-flood", "forks", "ignore-sigterm", "hang")


class Impatient(Worker):
    """Waits for a baseline that hangs no longer than the test does."""

    def ask(self, job, limit_s):
        return super().ask(job, min(limit_s, HANG_LIMIT_S))


def nasty(what, kind=Worker, *arguments):
    return kind([sys.executable, str(NASTY), what, *arguments])


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder of temporary files, of this test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def test_named_memory_of_a_process_below_this_one_is_seen():
    program = "from multiprocessing.shared_memory import SharedMemory as S; m = S(create=True, size=1); "
    program += "print(flush=True); input(); m.unlink()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe) as process:
        process.stdout.readline()
        with named_memory.watched() as shared:
            while not shared:
                time.sleep(0.01)
        assert all(path.exists() for path in shared)
        process.communicate(b"\n")
    assert not any(path.exists() for path in shared)


def row():
    return row_of(
        suite="s", primitive="p", quantity="q", unit="1", provenance="measured", value=1.0
    )  # fmt: skip


def comparing(baseline, monkeypatch):
    """A cell that compares this project, which behaves, with a baseline, which does as its name says."""
    monkeypatch.setattr(
        registry, "own_worker", lambda mapping, cpus: nasty("rate", Worker, "20000", "1000000")
    )
    monkeypatch.setattr(
        registry, "baseline_worker", lambda name, cpus: nasty(name, Impatient if name in HANGS else Worker)
    )
    monkeypatch.setattr(registry, "build_baselines", lambda names: dict.fromkeys(names))
    item, mapping = workloads.load("cartpole-dqn"), Mapping.parse("native-native-cpu")

    def measure(run, report):
        return rounds.compare(item, mapping, [baseline], budget_s=0.1, progress=report)

    return Cell(f"compare/cartpole-dqn/{baseline}", 1, measure)


@pytest.mark.parametrize(
    ("baseline", "kind"),
    [
        ("flood", FailureKind.FLOOD),
        ("stderr-flood", FailureKind.TIMEOUT),
        ("forks", FailureKind.TIMEOUT),
        ("ignore-sigterm", FailureKind.TIMEOUT),
        ("memory", FailureKind.CRASH),
        ("killed", FailureKind.CRASH),
    ],
)
def test_a_baseline_that_misbehaves_is_one_failed_row(baseline, kind, tmp_path, temporary, monkeypatch):
    children = set(psutil.Process().children(recursive=True))
    path = tmp_path / "store.sqlite"
    before, after = (Cell(key, 1, lambda run, report: [row()]) for key in ("before", "after"))
    cells = [before, comparing(baseline, monkeypatch), after]
    with Store.open(path) as store, named_memory.watched() as shared:
        run = store.begin_run("quick", "r", MACHINE)
        execution.execute(run, cells, silent)
    with Store.open(path, read_only=True) as store:
        assert store.cells(1) == ["before", f"compare/cartpole-dqn/{baseline}", "after"]
        failed = [row for row in store.measurements(suite="compare") if row.status == "failed"]
        (told,) = failed
    assert told.failure == kind
    assert told.reason.startswith(f"{baseline}: {kind}:")
    assert told.who == baseline
    if baseline == "memory":
        assert any("MemoryError" in line for line in told.last_lines)
    assert sum(map(len, told.last_lines)) <= protocol.LAST_LINES * protocol.MAX_LINE_CHARACTERS
    assert set(psutil.Process().children(recursive=True)) <= children
    assert list(temporary.iterdir()) == []
    assert [path for path in shared if path.exists()] == []
    assert {path.name for path in tmp_path.iterdir()} == {"store.sqlite", "temporary"}


def test_a_baseline_killed_from_outside_in_the_middle_of_its_job(tmp_path, monkeypatch):
    cell = comparing("hang", monkeypatch)
    started = []
    monkeypatch.setattr(registry, "baseline_worker", partial(_started, started))

    def kill():
        while not (started and started[0]._guarded.process.poll() is None and _below(started[0])):
            time.sleep(0.01)
        for process in _below(started[0]):
            process.send_signal(signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "r", MACHINE)
        execution.execute(run, [cell], silent)
        killer.join()
        (told,) = [row for row in run.measurements() if row.status == "failed"]
        assert told.failure == FailureKind.CRASH
        assert "signal 9" in told.reason
        assert not cell.finished(run), "the next run tries it again"
        execution.execute(run, [Cell(cell.key, 1, lambda run, report: [row()])], silent)
        assert cell.finished(run)


def _started(started, name, cpus):
    worker = nasty(name)
    started.append(worker)
    return worker


def _below(worker):
    """What the guard of a worker has started."""
    try:
        return psutil.Process(worker._guarded.process.pid).children()
    except psutil.NoSuchProcess:
        return []
