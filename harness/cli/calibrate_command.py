"""The command `placerl calibrate`, which checks how far measurements of this machine can be trusted."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from placerl.harness.cli.app import app
from placerl.harness.cli.common import JsonOption, TierOption, out, print_json
from placerl.harness.core.progress import bar
from placerl.harness.plan import tiers

if TYPE_CHECKING:
    from placerl.harness.plan.calibration import CalibrationFinding


@app.command(epilog="Example: `placerl calibrate --repeats 50 --no-tables`")
def calibrate(
    tier_name: TierOption = "quick",
    repeats: Annotated[int, typer.Option(min=1, help="Comparisons of each primitive with itself.")] = 100,
    tries: Annotated[int, typer.Option(min=1, help="Comparisons with a slowdown of 3%.")] = 40,
    tables: Annotated[bool, typer.Option(help="Also count the noisy rows of the primitive tables.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Check how often intervals hold the true value here, slowdowns of 3% are found, and rows are too noisy.

    Takes about eight minutes on two quiet cores, four without the tables. It takes longer if other work shares
    the cores, because comparisons then run up to five times their rounds. Exit status 1 if a goal is missed.
    """
    from placerl.harness.plan import calibration

    tier = tiers.tier(tier_name)
    with bar("calibrate") as report:
        findings = calibration.run(tier, repeats, tries, report, tables=tables)
    if as_json:
        print_json([asdict(one) | {"share": one.share} for one in findings])
    else:
        out.print(table(findings))
    if any(one.met is False for one in findings):
        raise typer.Exit(1)


def table(findings: "list[CalibrationFinding]") -> Table:
    """Return a table of the calibration's findings: each share with its interval, and whether its goal is met."""
    lines = Table("what", "found", "share", "95% interval", "goal", "", title="Calibration; measured")
    for one in findings:
        met = "" if one.met is None else "met" if one.met else "missed"
        interval = f"{one.low:.1%} to {one.high:.1%}"
        lines.add_row(one.what, f"{one.found} of {one.of}", f"{one.share:.1%}", interval, one.goal, met)
    return lines
