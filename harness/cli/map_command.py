"""The command `placerl map`, which chooses the device of each part of a training and predicts the throughput."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from placerl.harness.cli.app import app
from placerl.harness.cli.common import (
    BatchSizeOption,
    JsonOption,
    KnownOption,
    PrecisionOption,
    ResultsOption,
    TierOption,
    out,
    print_json,
)
from placerl.harness.cli.completion import THIS_MACHINE, completed, platforms, workloads
from placerl.harness.core.errors import OptionName, UserError
from placerl.harness.core.revision import RESULTS
from placerl.harness.profile.simulated_devices import DEVICES

if TYPE_CHECKING:
    from placerl.harness.plan.predicting import Predictions
    from placerl.harness.store.rows import PieceTime, PredictedRate

SHOWN = 3
"""Numbers of a platform shown that would change the choice, the nearest first."""


@app.command(
    name="map",
    epilog="Example: `placerl map pong-dqn --platform map-tpds23`, `placerl map hopper-ddpg --device h200`",
)
def map_command(  # noqa: PLR0913 (a command: its options)
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[WORKLOAD]",
            help="A workload's name, or the path of its TOML file. Without one, a GPU that `--device` names is judged "
            "with all that was measured on it.",
            autocompletion=completed(workloads),
        ),
    ] = None,
    batch_size: BatchSizeOption = None,
    platform_name: Annotated[
        str,
        typer.Option(
            "--platform",
            help=f"Of {', '.join(platforms())}, or a path that ends in .toml: modelled from published numbers. Or "
            "the card or bundle of another machine, a path that ends in .json: predicted.",
            autocompletion=completed(platforms),
        ),
    ] = THIS_MACHINE,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            help=f"A simulated device, {' or '.join(DEVICES)}, or a GPU of another machine that a committed run was "
            "measured on, such as h200. The FPGA joins such a GPU.",
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=NUMBER",
            help="A number of the platform, such as link.cpu-gpu.gb_s=32 or device.gpu.launch_us=4, next to the "
            "platform as it is; may be repeated. Of this machine: of links and memories, and device.cpu.cores.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="PLATFORM",
            help="Another platform next to this one.",
            autocompletion=completed(platforms),
        ),
    ] = None,
    known: KnownOption = None,
    precision: PrecisionOption = None,
    tier_name: TierOption = "quick",
    everything: Annotated[
        bool,
        typer.Option("--all", help="Print every mapping's prediction, and the times of another platform."),
    ] = False,
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Choose the devices that run learner, replay management and storage, and predict the training's throughput."""
    from placerl.harness.mapping import absent_platforms, checked
    from placerl.harness.mapping.answer import answer, chosen_of
    from placerl.harness.plan.predicting import CARD, check_platform, predictions
    from placerl.harness.plan.sensitivity import LARGEST, turning_points

    if name is None:
        given: dict[str, object] = {
            "--batch-size": batch_size,
            "--precision": precision,
            "--platform": platform_name,
        }
        given |= {"--set": changes, "--against": against, "--known": known}
        asked = {key: value for key, value in given.items() if value not in (None, [], THIS_MACHINE)}
        _study(device, tier_name, results, as_json, asked)
        return
    if against is not None:
        check_platform(against, OptionName("against"))
    cards = [one for one in (platform_name, against) if one and one.endswith(CARD)]
    known_of = dict.fromkeys(cards or [platform_name], known or ())
    predicted = predictions(
        name,
        batch_size,
        platform=platform_name,
        device=device,
        precisions=precision or (),
        tier=tier_name,
        results=results,
        other_sizes=not as_json,
        changes=changes or (),
        known=known_of.get(platform_name, ()),
    )
    beside: dict[str, Predictions] = {}
    for label, other in ((platform_name, platform_name if changes else None), (against, against)):
        if label and other:
            beside[label] = predictions(
                name,
                batch_size,
                platform=other,
                device=device if other == platform_name else None,
                precisions=precision or () if other == platform_name else (),
                tier=tier_name,
                results=results,
                other_sizes=False,
                known=known_of.get(other, ()),
            )
    item, rows, size = predicted.workload, predicted.rows, predicted.workload.training.batch_size
    if as_json:
        every = [row for one in (predicted, *beside.values()) for row in (*one.inputs, *one.rows)]
        print_json([row.to_json() for row in every])
        return
    for line in answer(rows, predicted.elsewhere):
        out.print(line, markup=False)
    if predicted.modelled is not None:
        chosen = chosen_of(rows)
        if said := checked.said_of(chosen.strategy if chosen else ""):
            out.print(said, markup=False)
        points = turning_points(item, size, predicted.modelled)
        for point in points[:SHOWN]:
            out.print(str(point), markup=False)
        if not points:
            out.print(f"No number of the platform changes it by itself, up to a factor of {LARGEST:g}.")
    if beside:
        with_changes = f"{platform_name} with {', '.join(changes)}" if changes else platform_name
        _show_side_by_side({with_changes: predicted} | beside)
    if predicted.inputs and everything:
        _show_inputs(predicted.inputs)
    where = platform_name if device is None else f"{platform_name} with {device}"
    _show_predictions(rows, f"{item.name}, batch size {size}, {where}: Learner-RMM-Storage", everything)
    if platform_name == "map-tpds23":
        for cell in absent_platforms.map_table_5(item.name, size):
            same = "the same" if cell.ours == cell.published else "another"
            out.print(
                f"MAP Table V prints {cell.published}; with its 16 actors and K = 2, Algorithm 3 takes "
                f"{cell.ours} here: {same}.{f' It differs: {cell.reason}.' if cell.reason else ''}",
                markup=False,
            )


def _study(
    device: str | None, tier_name: str, results: Path, as_json: bool, given: Mapping[str, object]
) -> None:
    """Print which mapping is the best with a GPU of another machine, for everything that was measured on it.

    Args:
        given: options that need a workload, with their values.
    """
    from placerl.harness.plan.device_study import study
    from placerl.harness.profile import lent
    from placerl.harness.validate import predicted_regret

    if device not in lent.devices():
        allowed = f"a workload, or none with --device {' or '.join(lent.devices()) or 'of a committed run'}"
        raise UserError("command line", "WORKLOAD", "nothing", allowed)
    for option, value in given.items():
        raise UserError("command line", option, value, "none without a workload")
    cells = study(device, tier_name, results)
    if as_json:
        print_json([asdict(cell) for cell in cells])
        return
    table = Table(title=f"The best mapping with {device}, and what choices lose, predicted (modelled)")
    for column in predicted_regret.COLUMNS:
        table.add_column(column)
    for cell in cells:
        table.add_row(*cell.line)
    out.print(table)
    for line in (*predicted_regret.summary(cells), *dict.fromkeys(cell.machine for cell in cells)):
        out.print(line, markup=False)
    out.print(
        "~: from a time that is too noisy; ?: noise alone may explain the loss; –: not predicted",
        markup=False,
    )


def _show_side_by_side(by_name: "Mapping[str, Predictions]") -> None:
    """Print the choice on each platform, and how many times as fast it is as that on the first."""
    from placerl.harness.mapping.answer import chosen_of

    first = 0.0
    for name, predicted in by_name.items():
        if (chosen := chosen_of(predicted.rows)) is None:
            out.print(f"{name}: no mapping was chosen", markup=False)
            continue
        first = first or chosen.gps
        said = f"{chosen.strategy} chooses {chosen.mapping}: {chosen.gps:,.1f} gradient steps/s"
        out.print(f"{name}: {said}, {chosen.gps / first:.3g} times the first", markup=False)


def _show_inputs(rows: "list[PieceTime]") -> None:
    from placerl.harness.mapping.answer import MACHINE

    machine = rows[0].notes.get(MACHINE)
    title = f"Times of {machine}" if machine else "Modelled times: the longest term of each roofline"
    table = Table(title=title)
    for column in ("primitive", "target", "us", "from", "provenance"):
        table.add_column(column)
    for row in rows:
        time = "not run" if row.value is None else f"{row.value * 1e6:,.3f}"
        if row.low and row.high:
            time += f" ({row.low * 1e6:,.3g} to {row.high * 1e6:,.3g})"
        how = row.reason or row.formula or ""
        table.add_row(row.primitive, row.target or "", time, how, str(row.provenance))
    out.print(table)


def _show_predictions(rows: "list[PredictedRate]", title: str, everything: bool) -> None:
    """Print what each strategy chooses, or all of its predictions if `everything`, in gradient steps per second."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("strategy", no_wrap=True)
    table.add_column("mapping", overflow="fold")
    for column in ("steps/s", *(("largest term",) if everything else ())):
        table.add_column(column, justify="right", no_wrap=True)
    predicted = [row for row in rows if row.value is not None]
    for row in sorted(predicted, key=lambda row: (row.strategy, -(row.value or 0))):
        if not (row.chosen or everything):
            continue
        mark = "  <- chosen" if row.chosen and everything else ""
        term, time_s = max((row.terms_s or {}).items(), key=lambda item: item[1])
        table.add_row(
            row.strategy,
            row.mapping + mark,
            f"{'~' if row.status == 'too_noisy' else ''}{row.value:,.1f}",
            *((f"{term} {time_s * 1e6:,.1f} us",) if everything else ()),
        )
    if any(row.status == "too_noisy" for row in predicted):
        table.caption, table.caption_justify = "~: from a time that is too noisy", "left"
    out.print(table)
    mappings = len({row.mapping for row in predicted})
    if not everything:
        out.print(f"Chosen among {mappings} mappings by modelled times; --all prints every prediction.")
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
