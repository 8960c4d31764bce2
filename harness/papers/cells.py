"""Defines the cells of the plan with which a paper requests measurements.

A cell is a piece of the plan whose rows are measured and stored together. A claim returns its cells
(`Claim.cells`); the plan collects those of all claims.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Protocol

from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.store.cell import Cell

GPU_TIER = "gpu"
"""Name of the tier that measures only what a CUDA device decides (`harness.plan.gpu_claims`).

A claim opts in by the cells that it returns for this tier: each takes at most some 20 s and uses the device.
"""


NIGHT_TIER = "night"
"""Name of the tier that measures what claims about learning need, for days (`harness.plan.night`).

Its cells are those that a sequential test uses (`Cell.look`); a claim opts in by those that it returns for this tier.
"""


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


def experiment_cells(
    key: str,
    measure: Callable[..., Sequence[Row]],
    tiers: Collection[str] = (),
    estimate_s: float | None = None,
    provenance: Provenance = Provenance.MEASURED,
) -> Callable[[TierLimits], list[Cell]]:
    """Return a function that returns the only cell of an experiment in a tier, as `Claim.measured_by` holds.

    Args:
        measure: does the work; called with a progress callback, and before it with the tier's budget, seconds, if
            `estimate_s` is None.
        tiers: names of the tiers that have the cell; empty for all.
    """

    def cells(tier: TierLimits) -> list[Cell]:
        if tiers and tier.name not in tiers:
            return []
        if estimate_s is None:
            return [claim_cell(key, tier.experiment_s, partial(measure, tier.experiment_s), provenance)]
        return [claim_cell(key, estimate_s, measure, provenance)]

    return cells


def row_cell(key: str, estimate_s: float, measure: Callable[[Report], Row]) -> Cell:
    """Return the cell, a piece of the plan, that runs an experiment with a single measurement."""
    return claim_cell(key, estimate_s, lambda report: [measure(report)])
