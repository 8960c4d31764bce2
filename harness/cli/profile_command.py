"""`placerl profile`."""

from harness import simulated_profile, tiers
from harness.cli.app import app
from harness.cli.common import (
    RESULTS,
    BatchSizeOption,
    DeviceOption,
    JsonOption,
    ResultsOption,
    TierOption,
    WorkloadArgument,
    begin,
    loaded,
    print_rows,
    profiled,
    simulated,
)


@app.command(epilog="Example: `placerl profile hopper-ddpg --batch-size 256`")
def profile(
    name: WorkloadArgument,
    batch_size: BatchSizeOption = None,
    device: DeviceOption = None,
    tier_name: TierOption = "quick",
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Time every primitive of a workload on every backend that runs here, or count its cycles on a simulated device."""
    if device is not None:
        simulated_profile.checked_device(device)
    item, tier = loaded(name, batch_size), tiers.tier(tier_name)
    size = item.training.batch_size
    run = begin(results, tier)
    rows = profiled(run, item, size, tier) if device is None else simulated(run, item, size, device)
    print_rows(rows, f"{item.name}, batch size {size}", as_json)
