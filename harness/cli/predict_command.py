"""The command `placerl predict`, which predicts the primitives of a machine that is not here from its card."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from placerl.harness.cli.app import app
from placerl.harness.cli.common import (
    BatchSizeOption,
    JsonOption,
    KnownOption,
    WorkloadArgument,
    batch_size_of,
    out,
    print_json,
)


@app.command(epilog="Example: `placerl predict cartpole-dqn --card theirs.json --known mine-bundle.json`")
def predict(
    name: WorkloadArgument,
    card: Annotated[
        Path, typer.Option("--card", metavar="FILE", help="The card of the machine that is not here.")
    ],
    known: KnownOption = None,
    batch_size: BatchSizeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict how long a workload's primitives take on a machine of which only the card is known.

    The more bundles of different machines are given, the narrower are the 95% intervals.
    """
    from placerl.harness import workloads
    from placerl.harness.machines.predicting import Predictor
    from placerl.harness.machines.renting import known_machines, predictable

    item = workloads.load(name)
    size = batch_size_of(item, batch_size)
    there, bundles = predictable(card), known_machines(known or (), item.name, size)
    found = [
        one
        for one in Predictor(bundles).predictions(there)
        if (one.row.workload, one.row.batch_size) == (item.name, size)
    ]
    if as_json:
        print_json([_plain(asdict(one)) for one in found])
        return
    out.print(f"{item.name}, batch size {size}, on {there.facts.cpu}: predicted (modelled)")
    count = sum(one.has(item.name, size) for one in bundles)
    out.print(f"From {count} known machine{'s' * (count > 1)}")
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("primitive", overflow="fold")
    table.add_column("target", overflow="fold")
    for column in ("us", "95% interval", "bound by"):
        table.add_column(column, justify="right", no_wrap=column != "bound by")
    for time in found:
        interval = f"{time.low_s * 1e6:.3g} to {time.high_s * 1e6:.3g}"
        bound = max(time.bounds, key=time.bounds.__getitem__)
        table.add_row(time.row.primitive, time.row.target, f"{time.time_s * 1e6:.3g}", interval, bound)
    out.print(table)


def _plain(predicted: dict) -> dict:
    """Return a prediction without the samples of the known machine, which are not the other machine's."""
    row = predicted.pop("row")
    named = {name: getattr(row, name) for name in ("workload", "batch_size", "primitive", "target")}
    return named | predicted | {"provenance": "modelled"}
