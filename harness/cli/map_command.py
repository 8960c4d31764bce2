"""`placerl map`."""

from rich.table import Table

from harness import tiers
from harness.cli.app import app
from harness.cli.common import (
    RESULTS,
    BatchSizeOption,
    JsonOption,
    ResultsOption,
    TierOption,
    WorkloadArgument,
    begin,
    loaded,
    out,
    predicted,
    print_json,
)


@app.command(name="map", epilog="Example: `placerl map hopper-ddpg --batch-size 256`")
def map_command(
    name: WorkloadArgument,
    batch_size: BatchSizeOption = None,
    tier_name: TierOption = "quick",
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Choose which device runs the learner, the replay management and the storage, and predict its throughput."""
    item, tier = loaded(name, batch_size), tiers.tier(tier_name)
    size = item.training.batch_size
    run = begin(results, tier)
    rows = predicted(run, item, size, tier)
    if as_json:
        print_json([row.to_json() for row in rows])
        return
    table = Table(title=f"{item.name}, batch size {size}: mappings Learner-RMM-Storage")
    for column in ("strategy", "mapping", "predicted GPS", "unit", "largest term", "provenance"):
        table.add_column(column, no_wrap=True)
    for row in sorted(rows, key=lambda row: (row.backend, -(row.value or 0))):
        mark = "  <- chosen" if row.details["chosen"] else ""
        term, time_s = max(row.details["terms_s"].items(), key=lambda item: item[1])
        table.add_row(
            row.backend,
            row.details["mapping"] + mark,
            f"{row.value:,.1f}",
            "gradient steps/s",
            f"{term} {time_s * 1e6:,.1f} us",
            str(row.provenance),
        )
    out.print(table)
