"""MAP's optimal mappings, computed again on MAP's own platform (Table V)."""

from dataclasses import asdict
from functools import partial

from harness.core.progress import Report
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.mapping import absent_platforms
from harness.papers.cells import Tier, claim_cell
from harness.store.cell import Cell


def optimal_mappings(report: Report) -> list[Measurement]:
    """MAP Table V on MAP's own platform: Algorithm 3 on times that are modelled from published numbers.

    Rows `as_printed` are 1 where the mapping is the printed one, else 0, with both and the reason in the details;
    rows `gain` are what the printed mapping gains over another that is printed.

    Args:
        report: called with the progress.
    """
    row = partial(
        Measurement,
        suite="claim",
        primitive="mapping",
        backend="map-tpds23",
        device="map-tpds23",
        provenance=Provenance.MODELLED,
    )
    rows = []
    for done, cell in enumerate(absent_platforms.map_table_5()):
        report(done, 11, "Table V")
        rows.append(
            row(
                workload=cell.workload,
                batch_size=cell.batch_size,
                quantity="as_printed",
                value=float(cell.ours == cell.published),
                details={"experiment": "optimal mappings"} | asdict(cell),
            )
        )
    rows += [
        row(
            workload=gain.workload,
            batch_size=gain.batch_size,
            quantity="gain",
            value=gain.gain,
            details={"experiment": "gains over other mappings"} | asdict(gain),
        )
        for gain in absent_platforms.map_table_5_gains()
    ]
    return rows


def cells(tier: Tier) -> list[Cell]:
    """Table V, and what its mappings gain; no clock is read for either."""
    return [claim_cell("MAP-T5", 0.0, optimal_mappings, Provenance.MODELLED)]
