"""`placerl run`."""

from typing import Annotated

import typer

from harness import predicting, reproduce, tiers
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
    predicted,
    print_rows,
)
from harness.mapping import Mapping
from harness.progress import bar
from harness.runtime import compose


@app.command(epilog="Example: `placerl run hopper-ddpg --mapping torch-native-cpu --seconds 60`")
def run(
    name: WorkloadArgument,
    mapping: Annotated[
        str | None,
        typer.Option("--mapping", help="LEARNER-RMM-STORAGE; what `placerl map` chose when left out."),
    ] = None,
    batch_size: BatchSizeOption = None,
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="Training time after the warm-up.")] = 30,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    tier_name: TierOption = "quick",
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Train under a mapping: gradient steps and environment steps per second, and episode returns."""
    item, tier = loaded(name, batch_size), tiers.tier(tier_name)
    size = item.training.batch_size
    chosen = Mapping.parse(mapping) if mapping else None
    if chosen:
        compose.check(item, chosen)
    opened = begin(results, tier)
    if chosen is None:
        chosen = predicting.chosen_mapping(predicted(opened, item, size, tier))
    cell = reproduce.run_cell(item, size, seed, seconds, chosen)
    with bar(cell.key) as report:
        rows = reproduce.measure_now(opened, cell, report)
    print_rows(rows, f"{item.name}, batch size {size}, {chosen}", as_json)
