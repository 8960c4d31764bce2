"""The command `placerl profile`, which times the primitives of a workload, or simulates them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from placerl.harness.cli.app import app
from placerl.harness.cli.common import (
    BatchSizeOption,
    DeviceOption,
    JsonOption,
    PrecisionOption,
    ResultsOption,
    TierOption,
    WorkloadArgument,
    out,
    print_rows,
    say,
)
from placerl.harness.core.revision import RESULTS

if TYPE_CHECKING:
    from placerl.harness.store.rows import PieceTime


@app.command(epilog="Example: `placerl profile hopper-ddpg --batch-size 256`")
def profile(
    name: WorkloadArgument,
    batch_size: BatchSizeOption = None,
    device: DeviceOption = None,
    precision: PrecisionOption = None,
    tier_name: TierOption = "quick",
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Time every primitive of a workload on every backend that runs here, or count its cycles on a simulated device."""
    from placerl.harness.plan import tiers
    from placerl.harness.plan.predicting import asked_precisions, begin, loaded, profiled, simulated
    from placerl.harness.profile.simulated import checked_device
    from placerl.harness.store.rows import PieceTime

    precisions = asked_precisions(precision, device)
    if device is not None:
        checked_device(device)
    item, tier = loaded(name, batch_size), tiers.tier(tier_name)
    run = begin(results, tier)
    title = f"{item.name}, batch size {item.training.batch_size}"
    rows = profiled(run, item, tier, precisions) if device is None else simulated(run, item, device)
    print_rows(rows, title, as_json)
    if device is not None and not as_json:
        _print_cycles([row for row in rows if isinstance(row, PieceTime)])
    if any(row.status == "failed" for row in rows):
        raise typer.Exit(1)


def _print_cycles(rows: "Sequence[PieceTime]") -> None:
    """Print simulated cycles next to the papers' formulas."""
    table = Table(title="Clock cycles, simulated, and the papers' formulas, modelled")
    for column in ("primitive", "cycles", "formula", "cycles by it", "difference", "because"):
        table.add_column(column)
    counted = [row for row in rows if row.value is not None]
    for row in counted:
        if row.formula is not None:
            reasons = [f"{name} {value:+,.10g}" for name, value in (row.difference_reasons or {}).items()]
            difference = f"{row.difference_cycles:+,.10g}"
            beside = (row.formula, f"{row.formula_cycles:,.10g}", difference, ", ".join(reasons))
        else:
            parts = ", ".join(f"{unit} {cycles:,}" for unit, cycles in (row.unit_cycles or {}).items())
            beside = ("none for a whole step", "", "", f"of which {parts}")
        table.add_row(row.primitive, f"{row.cycles:,}", *beside)
    out.print(table)
    for row in counted[:1]:
        clock, source = row.clock_mhz, row.clock_source
        say(f"At a clock of {clock:g} MHz, assumed: {source}.")
