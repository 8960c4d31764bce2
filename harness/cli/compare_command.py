"""`placerl compare`."""

from typing import Annotated

import typer

from harness import reproduce, tiers
from harness.cli.app import app
from harness.cli.common import (
    RESULTS,
    JsonOption,
    ResultsOption,
    TierOption,
    WorkloadArgument,
    begin,
    loaded,
    named_baselines,
    predicted,
    print_rows,
)
from harness.progress import bar
from harness.store import Measurement


@app.command(epilog="Example: `placerl compare hopper-ddpg --baselines sb3`")
def compare(
    name: WorkloadArgument,
    named: Annotated[str, typer.Option("--baselines", help="Names joined by commas, or `all`.")] = "sb3",
    tier_name: TierOption = "quick",
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Run a workload here and in other libraries, interleaved, and print the ratio of their throughput."""
    item, tier = loaded(name, None), tiers.tier(tier_name)
    names = named_baselines(named)
    opened = begin(results, tier)
    predicted(opened, item, item.training.batch_size, tier)
    rows: list[Measurement] = []
    for baseline in names:
        cell = reproduce.compare_cell(item, baseline, tier)
        with bar(cell.key) as report:
            rows += reproduce.measure_now(opened, cell, report)
    print_rows(rows, f"{item.name} beside {named}", as_json)
    if any(row.status == "failed" for row in rows):
        raise typer.Exit(1)
