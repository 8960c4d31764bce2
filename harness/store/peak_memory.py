"""The peak resident memory of a run, stored in rows of suite `memory`.

| primitive | what |
|---|---|
| `main process` | most resident memory of the process that measured |
| `largest process` | the same, or that of a larger process that it started and has waited for |

The system's count for a child includes the memory that its parent held when the child started, so a smaller child
cannot be measured. The larger of parent and child is exact.
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
    """Return the peak of the largest of this process and the children that it has waited for, in bytes."""
    return max(own_bytes(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)


def record(run: Run) -> None:
    """Store this process's peaks, unless the run already has higher ones.

    If another process resumes a run, each adds rows; the run's peak is the highest.
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
    """Record the peaks when the block ends, in any way."""
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
