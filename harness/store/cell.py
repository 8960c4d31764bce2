"""Defines the cell: a piece of work whose results (rows) are stored together when it is done.

A run, the results of one plan on one machine, consists of cells. If the process ends early, the run is resumed
with the first unfinished cell; a finished cell is not repeated.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, takewhile

from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.platforms import available_memory
from placerl.harness.platforms.available_memory import NotEnoughMemory
from placerl.harness.store.rows import Failure
from placerl.harness.store.store import Run


@dataclass(frozen=True)
class Cell:
    """A cell, a piece of a plan whose rows are stored together.

    Attributes:
        key: identifies the cell within a run, such as `profile/hopper-ddpg/256`.
        estimate_s: expected duration in seconds, for the plan and the progress bar.
        measure: function that does the work and returns its rows; called with the run, which holds the rows of earlier
            cells, and a function that reports progress.
        chain: name of a group of cells that need each other's rows, so that one machine must measure them all; empty
            if the cell is on its own.
        baselines: names of the baselines whose virtual environments it needs.
        stale: function that returns whether the cell must be measured again, because the data from which its stored
            rows were computed has changed.
        provenance: provenance of its rows, for the row that reports a failure.
        needs: keys of the cells whose rows it needs; they precede it in a plan.
        batch_size: batch size of its rows, for the row that reports a failure; None if it has none or several.
        label: name that its rows give the baseline, for the row that reports a failure; empty
            if it is the baseline's own.
        look: number of the first look of a sequential test (`harness.measure.sequential`), from 1, that uses its rows;
            0 if no such test does.
        moot: function that returns whether the stored rows already decide what the cell's would help to decide.
        one_thread: whether it computes in one thread, and times nothing that is judged, so that other such cells may
            be measured at the same time.
        stored: function that is called once the cell's rows are stored, such as to remove a file.
    """

    key: str
    estimate_s: float
    measure: Callable[[Run, Report], Sequence[Row]]
    chain: str = ""
    baselines: tuple[str, ...] = ()
    stale: Callable[[Run], bool] = lambda run: False
    provenance: Provenance = Provenance.MEASURED
    needs: tuple[str, ...] = ()
    batch_size: int | None = None
    label: str = ""
    look: int = 0
    moot: Callable[[Run], bool] = lambda run: False
    one_thread: bool = False
    stored: Callable[[Run], None] = lambda run: None

    def measured(self, run: Run, report: Report) -> Sequence[Row]:
        """Measure this cell, return its rows, and give the memory that the measurement freed back to the system.

        Args:
            run: the stored results of one plan on one machine, with the rows of earlier cells.

        Raises:
            Exception: whatever the measurement raises.
        """
        try:
            return self.measure(run, report)
        finally:
            available_memory.release()

    def finished(self, run: Run) -> bool:
        """Return whether a run holds a row of this cell other than a failure; if not, the cell is measured again.

        A lack of memory is no result either: another program may have held the memory, or this process itself. Trying
        again costs little, because memory is checked before anything is measured.
        """
        return any(row.status != "failed" and not _lacks_memory(row) for row in self.rows(run))

    def due(self, run: Run) -> bool:
        """Return whether this cell must be measured in a run, for the first time or again; never if it is moot."""
        return (not self.finished(run) or self.stale(run)) and not self.moot(run)

    def failed(self, run: Run) -> bool:
        """Return whether this cell, or a part of it, failed the last time that it was measured, and is due again.

        A cell that only lacked memory is due, too, but did not fail: a small machine cannot measure it.
        """
        return self.due(run) and any(row.status == "failed" for row in self.rows(run))

    def older_than_needed(self, run: Run) -> bool:
        """Return whether a cell that this one needs was measured after it, so that its rows are out of date."""
        last = {name.partition("#")[0]: place for place, name in enumerate(run.cells())}
        return self.key in last and any(last.get(key, -1) > last[self.key] for key in self.needs)

    def rows(self, run: Run) -> Sequence[Row]:
        """Return the rows of the last time that this cell was measured in a run; empty if it never was."""
        attempts = list(takewhile(run.finished, self._attempts()))
        return run.measurements(cell=attempts[-1]) if attempts else []

    def store(self, run: Run, rows: Sequence[Row]) -> None:
        """Store the rows of this cell, which was just measured, as its next attempt; earlier attempts are kept.

        Args:
            rows: at least one row.
        """
        run.finish(next(name for name in self._attempts() if not run.finished(name)), rows)

    def _attempts(self) -> Iterator[str]:
        yield self.key
        for number in count(2):
            yield f"{self.key}#{number}"

    def failure(self, error: Exception) -> Failure:
        """Return the row to store for this cell if measuring it raised an exception.

        Its status is "failed", or "not_run" if there was not enough memory. Either way the next run measures the cell
        again. It names the baselines and the batch size, so that reports tell failed comparisons apart.
        """
        suite, _, rest = self.key.partition("/")
        baselines = ", ".join(self.baselines)
        return Failure(
            suite=suite,
            workload=rest.partition("/")[0],
            primitive=self.key,
            baselines=baselines,
            batch_size=self.batch_size,
            quantity="failure",
            provenance=self.provenance,
            status="not_run" if isinstance(error, NotEnoughMemory) else "failed",
            reason=str(error) if isinstance(error, NotEnoughMemory) else f"{type(error).__name__}: {error}",
            baseline=(self.label or baselines) if baselines else None,
        )


def _lacks_memory(row: Row) -> bool:
    """Return whether a row says that a whole cell was not run for lack of memory (`Cell.failure`)."""
    return (row.status, row.quantity) == ("not_run", "failure")
