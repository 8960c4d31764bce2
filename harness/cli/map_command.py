"""The command `placerl map`, which chooses the device of each part of a training and predicts the throughput."""

from typing import Annotated

import typer
from rich.table import Table

from placerl.harness import platforms
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
    print_json,
)
from placerl.harness.core.revision import RESULTS
from placerl.harness.mapping.roofline import platforms as modelled_platforms
from placerl.harness.store.rows import PieceTime, PredictedRate


@app.command(name="map", epilog="Example: `placerl map pong-dqn --platform map-tpds23`")
def map_command(
    name: WorkloadArgument,
    batch_size: BatchSizeOption = None,
    platform_name: Annotated[
        str,
        typer.Option(
            "--platform",
            help=f"Of {', '.join(modelled_platforms())}, or a path that ends in .toml. What is not this machine is "
            "modelled from published numbers.",
        ),
    ] = platforms.THIS_MACHINE,
    device: DeviceOption = None,
    precision: PrecisionOption = None,
    tier_name: TierOption = "quick",
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Choose the devices that run learner, replay management and storage, and predict the training's throughput."""
    from placerl.harness.mapping import absent_platforms
    from placerl.harness.mapping.answer import answer
    from placerl.harness.plan.predicting import predictions

    predicted = predictions(
        name,
        batch_size,
        platform=platform_name,
        device=device,
        precisions=precision or (),
        tier=tier_name,
        results=results,
        other_sizes=not as_json,
    )
    item, rows, size = predicted.workload, predicted.rows, predicted.workload.training.batch_size
    if as_json:
        print_json([row.to_json() for row in (*predicted.inputs, *rows)])
        return
    for line in answer(rows, predicted.elsewhere):
        out.print(line, markup=False)
    if predicted.inputs:
        _show_inputs(predicted.inputs)
    _show_predictions(rows, f"{item.name}, batch size {size}, {platform_name}: mappings Learner-RMM-Storage")
    if platform_name == "map-tpds23":
        for cell in absent_platforms.map_table_5(item.name, size):
            same = "the same" if cell.ours == cell.published else "another"
            out.print(
                f"MAP Table V prints {cell.published}; with its 16 actors and K = 2, Algorithm 3 takes "
                f"{cell.ours} here: {same}.{f' It differs: {cell.reason}.' if cell.reason else ''}",
                markup=False,
            )


def _show_inputs(rows: list[PieceTime]) -> None:
    table = Table(title="Modelled times: the longest term of each roofline")
    for column in ("primitive", "target", "us", "from", "provenance"):
        table.add_column(column)
    for row in rows:
        table.add_row(
            row.primitive,
            row.target or "",
            f"{(row.value or 0) * 1e6:,.3f}",
            row.formula or "",
            str(row.provenance),
        )
    out.print(table)


def _show_predictions(rows: list[PredictedRate], title: str) -> None:
    table = Table(title=title)
    for column in ("strategy", "mapping", "predicted GPS", "unit", "largest term", "provenance"):
        table.add_column(column, no_wrap=True)
    predicted = [row for row in rows if row.value is not None]
    for row in sorted(predicted, key=lambda row: (row.strategy, -(row.value or 0))):
        mark = "  <- chosen" if row.chosen else ""
        term, time_s = max((row.terms_s or {}).items(), key=lambda item: item[1])
        table.add_row(
            row.strategy,
            row.mapping + mark,
            f"{row.value:,.1f}{' (too noisy)' if row.status == 'too_noisy' else ''}",
            "gradient steps/s",
            f"{term} {time_s * 1e6:,.1f} us",
            str(row.provenance),
        )
    out.print(table)
    for row in predicted:
        if row.chosen and (settings := row.settings):
            said = ", ".join(f"{name} = {value}" for name, value in settings.items())
            out.print(f"{row.strategy} chooses {row.mapping} with {said}", markup=False)
    for row in predicted:
        if row.chosen and row.slow_link_us is not None:
            there = next((r for r in predicted if r.strategy == row.strategy and r.slow_chosen), row)
            choice = "the same" if there is row else there.mapping
            out.print(
                f"{row.strategy}: at {row.slow_link_us:,g} us a transfer over links that state no latency, its "
                f"choice is {choice}, {there.slow_gps:,.1f} gradient steps/s",
                markup=False,
            )
    for row in rows:
        if row.value is None:
            out.print(f"{row.strategy}: not run: {row.reason}", markup=False)
