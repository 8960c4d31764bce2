"""`placerl profile`."""

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
    print_rows,
    profiled,
)


@app.command(epilog="Example: `placerl profile hopper-ddpg --batch-size 256`")
def profile(
    name: WorkloadArgument,
    batch_size: BatchSizeOption = None,
    tier_name: TierOption = "quick",
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Time every primitive of a workload on every backend that runs here."""
    item, tier = loaded(name, batch_size), tiers.tier(tier_name)
    size = item.training.batch_size
    run = begin(results, tier)
    print_rows(profiled(run, item, size, tier), f"{item.name}, batch size {size}", as_json)
