"""The peak memory of a run is that of its processes, and stays the highest over resumptions."""

import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.store import peak_memory
from harness.store.peak_memory import LARGEST, MAIN
from harness.store.store import Run, Store

MB = 10**6
PROGRAM = """
import subprocess, sys
from harness.store import peak_memory

start = peak_memory.own_bytes()
bytearray(50_000_000)
own = peak_memory.own_bytes()
subprocess.run([sys.executable, "-c", "bytearray(400_000_000)"], check=True)
print(start, own, peak_memory.own_bytes(), peak_memory.largest_bytes())
"""


def test_what_was_freed_and_what_a_child_held_counts() -> None:
    """In a process of its own, which starts small."""
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    start, own, later, largest = map(int, said.split())
    assert own >= start + 45 * MB
    assert later < own + 50 * MB
    assert largest >= 400 * MB > later


def test_peaks_are_bytes_of_what_the_system_states_in_kibibytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = {resource.RUSAGE_SELF: 5, resource.RUSAGE_CHILDREN: 400}
    monkeypatch.setattr(resource, "getrusage", lambda who: SimpleNamespace(ru_maxrss=used[who]))
    status = tmp_path / "status"
    monkeypatch.setattr(peak_memory, "Path", lambda name: {"/proc/self/status": status}[name])
    assert peak_memory.own_bytes() == 5 * 1024, "where there is no such file"
    status.write_text("Name:\tpython\nVmRSS:\t     90 kB\n")
    assert peak_memory.own_bytes() == 5 * 1024, "or no such line"
    status.write_text("VmPeak:\t  9000 kB\nVmHWM:\t    300 kB\nVmRSS:\t     90 kB\n")
    assert (peak_memory.own_bytes(), peak_memory.largest_bytes()) == (300 * 1024, 400 * 1024)
    used[resource.RUSAGE_CHILDREN] = 200
    assert peak_memory.largest_bytes() == 300 * 1024


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Store.open(tmp_path / "store.sqlite").begin_run("quick", "r", {"fingerprint": "here"})


def record(run: Run, monkeypatch: pytest.MonkeyPatch, own: int, largest: int) -> None:
    monkeypatch.setattr(peak_memory, "own_bytes", lambda: own)
    monkeypatch.setattr(peak_memory, "largest_bytes", lambda: largest)
    peak_memory.record(run)


def test_a_run_keeps_the_peaks_of_each_process_that_had_higher_ones(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for own, largest in ((700, 900), (600, 900), (800, 850), (500, 1000), (800, 1000)):
        record(run, monkeypatch, own, largest)
    rows = run.measurements(suite="memory")
    assert [(row.primitive, row.value) for row in rows] == [
        (MAIN, 700.0), (LARGEST, 900.0),
        (MAIN, 800.0), (LARGEST, 850.0),
        (MAIN, 500.0), (LARGEST, 1000.0),
    ]  # fmt: skip
    assert {(row.quantity, row.unit, row.provenance) for row in rows} == {("peak_memory", "B", "measured")}
    assert run.finished("memory/quick/3")
    assert not run.finished("memory/quick/4")


def test_the_peaks_of_a_run_that_fails_are_recorded_too(run: Run) -> None:
    with pytest.raises(ZeroDivisionError), peak_memory.recorded(run):
        1 / len(run.measurements(suite="memory"))
    assert [row.primitive for row in run.measurements(suite="memory")] == [MAIN, LARGEST]
