"""The peak resident memory of a run, kept in its store as rows of suite `memory`.

| primitive | what |
|---|---|
| `main process` | most resident memory of the process that measured |
| `largest process` | the same, or that of a larger process that it started and has waited for |

The system counts with a child what its parent held when it was started, so that a child smaller than that cannot be
told apart; the larger of the two is exact.
"""

import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.store.store import Run

SUITE, QUANTITY = "memory", "peak_memory"
MAIN, LARGEST = "main process", "largest process"
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


def own_bytes() -> int:
    """Return the most resident memory that this process has had so far, in bytes."""
    status = Path("/proc/self/status")
    stated = _PEAK.search(status.read_text()) if status.is_file() else None
    kibibytes = int(stated[1]) if stated else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kibibytes * 1024


def largest_bytes() -> int:
    """Return the same of the largest of this process and those that it started and has waited for, in bytes."""
    return max(own_bytes(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)


def record(run: Run) -> None:
    """Store this process's peaks, unless the run already has higher ones.

    A run that is resumed by another process gets rows from each; its peak is the highest.
    """
    found = {MAIN: own_bytes(), LARGEST: largest_bytes()}
    stored = run.measurements(suite=SUITE)
    held = {name: [row.value for row in stored if row.primitive == name and row.value] for name in found}
    if all(bytes_ <= max(held[name], default=0.0) for name, bytes_ in found.items()):
        return
    # Not attempts of one cell, of which only the last counts: each name is another's.
    names = (f"{SUITE}/{run.record.tier}/{number}" for number in count(1))
    run.finish(next(name for name in names if not run.finished(name)), [_row(*one) for one in found.items()])


@contextmanager
def recorded(run: Run) -> Iterator[None]:
    """Record the peaks when what is enclosed ends, however it does."""
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
