"""The peak memory of a run is that of its processes, and stays the highest over resumptions."""

import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from placerl.harness.core.row import Row
from placerl.harness.store import peak_memory
from placerl.harness.store.peak_memory import LARGEST, MAIN, CellPeak
from placerl.harness.store.store import Run, Store

MB = 10**6
PROGRAM = """
import subprocess, sys
from placerl.harness.store import peak_memory

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
    # A cell that another test measured in this process has set it.
    monkeypatch.setattr(peak_memory, "_before_reset_bytes", 0)
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


CELLS = """
import subprocess, sys
from pathlib import Path
from placerl.harness.store import peak_memory
from placerl.harness.store.peak_memory import CellPeak
from placerl.harness.store.store import Store

run = Store.open(Path(sys.argv[1])).begin_run("quick", "r", {"fingerprint": "here"})
child = [sys.executable, "-c", "bytearray(700_000_000)"]
works = [
    lambda: bytearray(400_000_000),
    lambda: bytearray(50_000_000),
    lambda: subprocess.run(child, check=True),
    lambda: subprocess.run([sys.executable, "-c", ""], check=True),
]
with peak_memory.recorded(run):
    for number, work in enumerate(works):
        peak = CellPeak(run)
        work()
        peak.store(f"cell/{number}")
"""


def peaks_by_cell(store: Path) -> list[dict[str, Row]]:
    """The rows of each cell, by primitive."""
    with Store.open(store, read_only=True) as opened:
        (record,) = opened.runs()
        names = [name for name in opened.cells(record.id) if name.startswith("memory/cell/")]
        assert names == [f"memory/cell/{number}" for number in range(4)]
        return [
            {row.primitive: row for row in opened.measurements(run=record.id, cell=name)} for name in names
        ]


def test_each_cell_has_its_own_peak_and_the_run_has_the_highest(tmp_path: Path) -> None:
    """In a process of its own, which starts small and may set its count of the peak back."""
    store = tmp_path / "store.sqlite"
    subprocess.run([sys.executable, "-c", CELLS, str(store)], check=True)
    first, second, third, fourth = peaks_by_cell(store)
    if second[MAIN].since != "cell":
        pytest.skip("this kernel does not let a process set its peak back")
    bytes_ = [[row[name].value or 0.0 for name in (MAIN, LARGEST)] for row in (first, second, third, fourth)]
    assert bytes_[0][0] == bytes_[0][1] > 400 * MB > bytes_[1][0] > 50 * MB
    assert first[MAIN].held_before_bytes < 400 * MB
    assert bytes_[2][1] > 700 * MB, "a child that raised the children's peak"
    assert bytes_[3][1] == bytes_[3][0]
    assert fourth[LARGEST].children_at_most_bytes == bytes_[2][1], "no more is known of its child"
    with Store.open(store, read_only=True) as opened:
        whole = {row.primitive: row.value for row in opened.measurements(cell="memory/quick/1")}
    assert whole == {MAIN: bytes_[0][0], LARGEST: bytes_[2][1]}


def test_where_the_count_cannot_be_set_back_the_peak_is_the_process_s(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> int:
        raise PermissionError

    monkeypatch.setattr(Path, "write_text", forbidden)
    with peak_memory.recorded(run):
        peak = CellPeak(run)
        peak.store("a")
        peak.store("a")
    rows = [*run.measurements(cell="memory/a"), *run.measurements(cell="memory/a#2")]
    assert [(row.primitive, row.since) for row in rows] == [
        (MAIN, "process"),
        (LARGEST, "process"),
    ] * 2
    assert {row.of_cell for row in rows} == {"a"}


def test_the_peaks_of_cells_are_not_taken_for_the_run_s(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak_memory, "_recorded", {run.record.key})
    CellPeak(run).store("a")
    record(run, monkeypatch, own=700, largest=900)
    assert [row.value for row in run.measurements(cell="memory/quick/1")] == [700.0, 900.0]


def test_a_cell_that_is_measured_without_recording_stores_nothing(run: Run) -> None:
    CellPeak(run).store("a")
    assert not run.finished("memory/a")
