"""Records the peak resident memory of a run, as rows of suite `memory`.

| primitive | meaning |
|---|---|
| `main process` | most resident memory of the process that measured |
| `largest process` | most resident memory of any one process: the measuring one, or a child that it has waited for |

The operating system counts for a child also the memory that its parent held when the child started, so the peak of
a child that is smaller than its parent is unknown. The larger of the two peaks is exact.
"""

import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.core.suites import Suite
from harness.store.store import Run

SUITE, QUANTITY = Suite.MEMORY, "peak_memory"
MAIN, LARGEST = "main process", "largest process"
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


def own_bytes() -> int:
    """Return the peak resident memory of this process so far, in bytes."""
    status = Path("/proc/self/status")
    stated = _PEAK.search(status.read_text()) if status.is_file() else None
    kibibytes = int(stated[1]) if stated else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kibibytes * 1024


def largest_bytes() -> int:
    """Return the largest peak resident memory of this process and of the children that it has waited for, in bytes."""
    return max(own_bytes(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)


def record(run: Run) -> None:
    """Store in a run the peak memory of this process and of its largest child, unless higher values are stored.

    If several processes worked on a run, each adds rows, and the run's peak is the highest of them.
    """
    found = {MAIN: own_bytes(), LARGEST: largest_bytes()}
    stored = run.measurements(suite=SUITE)
    held = {name: [row.value for row in stored if row.primitive == name and row.value] for name in found}
    if all(bytes_ <= max(held[name], default=0.0) for name, bytes_ in found.items()):
        return
    # These rows are not attempts of one cell, of which only the last counts: each has another name.
    names = (f"{SUITE}/{run.record.tier}/{number}" for number in count(1))
    run.finish(next(name for name in names if not run.finished(name)), [_row(*one) for one in found.items()])


@contextmanager
def recorded(run: Run) -> Iterator[None]:
    """Store the peak memory in the run (`record`) when the `with` block ends, also by an exception."""
    try:
        yield
    finally:
        record(run)


def _row(primitive: str, bytes_: int) -> Measurement:
    return Measurement(
        suite=SUITE,
        primitive=primitive,
        quantity=QUANTITY,
        provenance=Provenance.MEASURED,
        value=float(bytes_),
    )
