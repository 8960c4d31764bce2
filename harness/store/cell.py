"""A cell: a piece of work whose rows a run holds once it is done.

A run is resumed cell by cell: a finished cell is never repeated, whatever happens to the process.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, takewhile

from harness.core.progress import Report
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.platforms.available_memory import NotEnoughMemory
from harness.store.store import Run


@dataclass(frozen=True)
class Cell:
    """One piece of the plan.

    Attributes:
        key: identifies the cell within a run, such as `profile/hopper-ddpg/256`.
        estimate_s: expected duration in seconds, for the plan and the progress bar.
        measure: does the work and returns its rows.
        chain: cells of one chain need each other's rows and are measured on one machine; by default the cell's
            own.
        baselines: baselines whose environments it needs.
        stale: returns whether the stored rows no longer match what they were computed from; the cell is then due
            again.
        provenance: provenance of its rows, for the row that reports a failure.
        needs: keys of cells whose rows it needs; they precede it in a plan.
    """

    key: str
    estimate_s: float
    measure: Callable[[Run, Report], list[Measurement]]
    chain: str = ""
    baselines: tuple[str, ...] = ()
    stale: Callable[[Run], bool] = lambda run: False
    provenance: Provenance = Provenance.MEASURED
    needs: tuple[str, ...] = ()

    def finished(self, run: Run) -> bool:
        """Return whether the run holds the cell; a cell whose rows are all failures is due again."""
        return any(row.status != "failed" for row in self.rows(run))

    def rows(self, run: Run) -> list[Measurement]:
        """Return the rows of the cell's last attempt; empty if there was none."""
        made = list(takewhile(run.finished, self._attempts()))
        return run.measurements(cell=made[-1]) if made else []

    def store(self, run: Run, rows: list[Measurement]) -> None:
        """Commit the rows of the cell, which was just measured, as its next attempt."""
        run.finish(next(name for name in self._attempts() if not run.finished(name)), rows)

    def _attempts(self) -> Iterator[str]:
        yield self.key
        for number in count(2):
            yield f"{self.key}#{number}"

    def failure(self, error: Exception) -> Measurement:
        """Return the row of a cell that raised an exception: "failed", or "not_run" if there was not enough
        memory.
        """
        suite, _, rest = self.key.partition("/")
        return Measurement(
            suite=suite,
            workload=rest.partition("/")[0],
            primitive=self.key,
            quantity="failure",
            provenance=self.provenance,
            status="not_run" if isinstance(error, NotEnoughMemory) else "failed",
            reason=str(error) if isinstance(error, NotEnoughMemory) else f"{type(error).__name__}: {error}",
        )
