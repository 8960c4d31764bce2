"""A cell: a piece of work that a run holds once it is done.

It is the unit of resumption: what finished is never repeated, whatever happens to the process.
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
        key: what identifies it within a run, such as `profile/hopper-ddpg/256`.
        estimate_s: expected duration in seconds, for the plan and the bar.
        measure: does the work and returns its rows.
        chain: cells of the same chain need one another's rows, and are measured on one machine; its own when empty.
        baselines: whose environments it needs.
        stale: whether what the run holds of it no longer follows from what it was made of: it is due again then.
        provenance: of what it would have told, for the row of its failure.
        needs: keys of the cells whose rows it cannot do without, which stand before it in a plan.
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
        """Return whether the run holds the cell; one that raised nothing but errors is due again."""
        return any(row.status != "failed" for row in self.rows(run))

    def rows(self, run: Run) -> list[Measurement]:
        """Return the rows of the cell's last attempt; none where there was none."""
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
        """Return the row of the cell, which raised: "failed", or "not run" where the memory for it is not there."""
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
