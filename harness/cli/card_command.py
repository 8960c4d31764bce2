"""The command `placerl card`, which measures what others need to predict this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from placerl.harness.cli.app import app
from placerl.harness.cli.common import JsonOption, out, print_json, say
from placerl.harness.core.files import check_writable_file
from placerl.harness.core.progress import bar

if TYPE_CHECKING:
    from placerl.harness.machines.card import Card

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))


@app.command(epilog="Example: `placerl card -o laptop.json`")
def card(
    path: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the card to this file, as JSON.")
    ] = None,
    shown: Annotated[
        Path | None,
        typer.Option("--show", metavar="FILE", help="Show a card that was written before; measure nothing."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure this machine's card in a minute: peaks, bandwidths, latencies, the costs of calls, environment rates.

    A card lets others predict what trainings would take on this machine. It names nobody: no host, user, path or
    serial number.
    """
    from placerl.harness.machines.card import Card

    if path is not None:
        check_writable_file(path)
    if shown is not None:
        measured = Card.read(shown)
    else:
        from placerl.harness.machines.measuring import measure

        with bar("card") as report:
            measured = measure(report)
    if path is not None:
        measured.write(path)
    if as_json:
        print_json(measured.model_dump(mode="json"))
        return
    _show(measured)
    if path is not None:
        say(f"Written: {path}")


def _show(measured: "Card") -> None:
    """Print what a machine is, and its figures."""
    facts = measured.facts
    cores = f"{facts.usable_cores} of {facts.logical_cores} cores usable, {facts.simd_level}"
    out.print("; ".join([f"{facts.cpu}: {cores}, {facts.memory_gib} GiB", *facts.accelerators.values()]))
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("figure", no_wrap=True)
    for column in ("value", "95% interval"):
        table.add_column(column, justify="right", no_wrap=True)
    for one in measured.figures:
        if one.value is None:
            table.add_row(one.name, one.status.replace("_", " "))
            continue
        interval = ""
        if one.low is not None and one.high is not None:
            interval = f"-{1 - one.low / one.value:.1%} +{one.high / one.value - 1:.1%}"
        table.add_row(one.name, quantity(one.value, one.unit), interval)
    out.print(table)
    for one in measured.figures:
        if one.reason and one.status != "too_noisy":
            out.print(f"{one.name}: {one.reason}")
    noise = f"{measured.noise_score:.2f}" if measured.noise_score else "unknown"
    out.print(f"Noise score {noise}; measured in {measured.wall_s:.0f} s; hash {measured.hash[:12]}")


def quantity(value: float, unit: str) -> str:
    """Return a number with three digits and the prefix of its unit, such as "12.3 GB/s"."""
    if unit == "1":
        return f"{value:.3f}"
    scale, prefix = next((one for one in _PREFIXES if value >= one[0]), _PREFIXES[-1])
    return f"{value / scale:.3g} {prefix}{unit}" if unit != "1/s" else f"{value / scale:.3g} {prefix}/s"
