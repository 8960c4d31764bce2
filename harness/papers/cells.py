"""The measurements that a paper requests of a tier, as cells of the plan.

A figure's file defines them in a function `cells(tier) -> list[Cell]`; the plan collects the cells of all papers.
"""

from collections.abc import Callable
from typing import Protocol

from harness.core.progress import Report
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.store.cell import Cell


class TierLimits(Protocol):
    """The attributes of a tier (`harness.plan.tiers`) that papers use."""

    @property
    def name(self) -> str:
        """`quick`, `standard` or `full`; another name if a command created its own tier."""

    @property
    def experiment_s(self) -> float:
        """Budget of one experiment, seconds."""


def claim_cell(
    key: str,
    estimate_s: float,
    measure: Callable[[Report], list[Measurement]],
    provenance: Provenance = Provenance.MEASURED,
) -> Cell:
    """Return the cell of an experiment that claims read.

    Args:
        key: key of the experiment, such as "PAL-F9"; the cell's key is `claim/PAL-F9`.
        estimate_s: expected duration, seconds.
        measure: does the work and returns rows of suite `claim`.
        provenance: provenance of the rows.
    """
    return Cell(f"claim/{key}", estimate_s, lambda run, report: measure(report), provenance=provenance)


def row_cell(key: str, estimate_s: float, measure: Callable[[Report], Measurement]) -> Cell:
    """Return the cell of an experiment that measures a single row; arguments as `claim_cell`."""
    return claim_cell(key, estimate_s, lambda report: [measure(report)])
