"""The command `placerl map`, which chooses the device of each part of a training and predicts the throughput."""

from typing import TYPE_CHECKING, Annotated

import typer

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
from placerl.harness.cli.map_study import show_study
from placerl.harness.cli.prediction_tables import show_inputs, show_predictions, show_side_by_side
from placerl.harness.core.errors import OptionName
from placerl.harness.core.revision import RESULTS
from placerl.harness.profile.simulated_devices import DEVICES

if TYPE_CHECKING:
    from placerl.harness.plan.predicting import Predictions

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
        given |= {"--set": changes, "--against": against, "--known": known, "--all": everything or None}
        asked = {key: value for key, value in given.items() if value not in (None, [], THIS_MACHINE)}
        show_study(device, tier_name, results, as_json, asked)
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
        points, limits = turning_points(item, size, predicted.modelled)
        for point in points[:SHOWN]:
            out.print(str(point), markup=False)
        if not points:
            out.print(f"No number of the platform changes it by itself, up to a factor of {LARGEST:g}.")
        for limit in limits:
            out.print(str(limit), markup=False)
    if beside:
        with_changes = f"{platform_name} with {', '.join(changes)}" if changes else platform_name
        show_side_by_side({with_changes: predicted} | beside)
    if predicted.inputs and everything:
        show_inputs(predicted.inputs)
    where = platform_name if device is None else f"{platform_name} with {device}"
    show_predictions(rows, f"{item.name}, batch size {size}, {where}: Learner-RMM-Storage", everything)
    if platform_name == "map-tpds23":
        for cell in absent_platforms.map_table_5(item.name, size):
            same = "the same" if cell.ours == cell.published else "another"
            out.print(
                f"MAP Table V prints {cell.published}; with its 16 actors and K = 2, Algorithm 3 takes "
                f"{cell.ours} here: {same}.{f' It differs: {cell.reason}.' if cell.reason else ''}",
                markup=False,
            )
