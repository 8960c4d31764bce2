"""Records the peak resident memory of a run and of each of its cells, as rows of suite `memory`.

| primitive | meaning |
|---|---|
| `main process` | most resident memory of the process that measured |
| `largest process` | most resident memory of any one process: the measuring one, or a child that it has waited for |

A row that names a cell is about that cell alone, the others about the run. Linux keeps the peak of a process,
which this process sets back to what it holds when a cell begins (5, written to `/proc/self/clear_refs`). Where that is
not permitted, a cell's peak is the process's peak so far, and `since` says "process" instead of "cell".

The peak of children cannot be set back: it is that of a cell if the cell raised it. If not, the children of the cell
are known only to have held no more than `children_at_most_bytes`. The operating system counts for a child
also the memory that its parent held when the child started, so the peak of a child that is smaller than its parent is
unknown. The larger of the two peaks is exact.
"""

import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psutil

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.store.rows import PeakMemory
from placerl.harness.store.store import Run

SUITE, QUANTITY = Suite.MEMORY, "peak_memory"
MAIN, LARGEST = "main process", "largest process"
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


_recorded: set[str] = set()  # keys of the runs whose peaks are being recorded
_before_reset_bytes = 0  # the highest peak that `_reset` has hidden from the system's count


def own_bytes() -> int:
    """Return the peak resident memory of this process so far, in bytes."""
    return max(_before_reset_bytes, _counted_bytes())


def _counted_bytes() -> int:
    """Return the peak resident memory of this process since it began or was last set back, in bytes."""
    status = Path("/proc/self/status")
    stated = _PEAK.search(status.read_text()) if status.is_file() else None
    kibibytes = int(stated[1]) if stated else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kibibytes * 1024


def largest_bytes() -> int:
    """Return the largest peak resident memory of this process and of the children that it has waited for, in bytes."""
    return max(own_bytes(), _children_bytes())


def _children_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def _reset() -> bool:
    """Set the system's count of this process's peak back to what it holds now; return whether that was permitted."""
    global _before_reset_bytes
    earlier_bytes = own_bytes()
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    _before_reset_bytes = earlier_bytes
    return True


class CellPeak:
    """The peak memory of a cell, a unit of work of a run: counted from when the object is created.

    It is recorded only while the run's own peak is (`recorded`).
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        if run.record.key not in _recorded:
            return
        self._since = "cell" if _reset() else "process"
        self._before_bytes = psutil.Process().memory_info().rss
        self._children_before_bytes = _children_bytes()

    def store(self, cell: str) -> None:
        """Store the peaks since this object was created, under the cell's name with "memory/" before it.

        Args:
            cell: the cell's key; a cell that was measured several times has the peaks of each attempt.
        """
        if self._run.record.key not in _recorded:
            return
        own, children = _counted_bytes(), _children_bytes()
        columns: dict[str, Any] = {
            "of_cell": cell,
            "since": self._since,
            "held_before_bytes": self._before_bytes,
        }
        raised = children > self._children_before_bytes
        unknown = {} if raised or children <= own else {"children_at_most_bytes": children}
        rows = [
            _row(MAIN, own, **columns),
            _row(LARGEST, max(own, children) if raised else own, **columns, **unknown),
        ]
        names = (f"{SUITE}/{cell}{f'#{number}' if number > 1 else ''}" for number in count(1))
        self._run.finish(next(name for name in names if not self._run.finished(name)), rows)


def record(run: Run) -> None:
    """Store in a run the peak memory of this process and of its largest child, unless higher values are stored.

    If several processes worked on a run, each adds rows, and the run's peak is the highest of them.
    """
    peaks = {MAIN: own_bytes(), LARGEST: largest_bytes()}
    stored = [row for row in run.rows(PeakMemory) if row.of_cell is None]
    held = {name: [row.value for row in stored if row.primitive == name and row.value] for name in peaks}
    if all(bytes_ <= max(held[name], default=0.0) for name, bytes_ in peaks.items()):
        return
    # These rows are not attempts of one cell, of which only the last counts: each has another name.
    names = (f"{SUITE}/{run.record.tier}/{number}" for number in count(1))
    run.finish(next(name for name in names if not run.finished(name)), [_row(*one) for one in peaks.items()])


@contextmanager
def recorded(run: Run) -> Iterator[None]:
    """Store the peak memory of each cell that is measured in a `with` block (`CellPeak`), and of the run at its end.

    The run's is also stored (`record`) if the block ends by an exception.
    """
    _recorded.add(run.record.key)
    try:
        yield
    finally:
        _recorded.discard(run.record.key)
        record(run)


def _row(primitive: str, bytes_: int, **columns: Any) -> PeakMemory:
    return PeakMemory(
        suite=SUITE,
        primitive=primitive,
        quantity=QUANTITY,
        provenance=Provenance.MEASURED,
        value=float(bytes_),
        **columns,
    )
