"""Defines the cells of the plan with which a paper requests measurements.

A cell is a piece of the plan whose rows are measured and stored together. A claim returns its cells
(`Claim.cells`); the plan collects those of all claims.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.store.cell import Cell


class TierLimits(Protocol):
    """The attributes of a tier (`harness.plan.tiers`) that papers use.

    A tier says how much a run of the plan measures.
    """

    @property
    def name(self) -> str:
        """Return the tier's name: `quick`, `standard`, `full`, or another name if a command created its own tier."""

    @property
    def experiment_s(self) -> float:
        """Return the time budget of one experiment, seconds."""


def claim_cell(
    key: str,
    estimate_s: float,
    measure: Callable[[Report], Sequence[Row]],
    provenance: Provenance = Provenance.MEASURED,
) -> Cell:
    """Return the cell, a piece of the plan, that runs an experiment for claims.

    Args:
        measure: does the work and returns the measurements, with `suite="claim"`.
    """
    return Cell(f"claim/{key}", estimate_s, lambda run, report: measure(report), provenance=provenance)


def row_cell(key: str, estimate_s: float, measure: Callable[[Report], Row]) -> Cell:
    """Return the cell, a piece of the plan, that runs an experiment with a single measurement."""
    return claim_cell(key, estimate_s, lambda report: [measure(report)])
