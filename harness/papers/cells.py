"""What a paper asks a tier to measure, as cells of the plan.

A figure's file states it in a function `cells(tier) -> list[Cell]`; the plan collects those of all papers.
"""

from collections.abc import Callable
from typing import Protocol

from harness.core.progress import Report
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.store.cell import Cell


class Tier(Protocol):
    """What papers read of a tier of the main job (`harness.plan.tiers`)."""

    @property
    def name(self) -> str:
        """`quick`, `standard` or `full`; of another name where a command has made its own."""

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
        key: of the experiment, such as "PAL-F9"; the cell's is `claim/PAL-F9`.
        estimate_s: expected duration, seconds.
        measure: does the work and returns rows of suite `claim`.
        provenance: of the rows.
    """
    return Cell(f"claim/{key}", estimate_s, lambda run, report: measure(report), provenance=provenance)


def row_cell(key: str, estimate_s: float, measure: Callable[[Report], Measurement]) -> Cell:
    """Return the cell of an experiment that measures a single row; arguments as `claim_cell`."""
    return claim_cell(key, estimate_s, lambda report: [measure(report)])
