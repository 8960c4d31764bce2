"""`placerl reproduce`."""

from typing import Annotated

import typer

from harness import reproduce, tiers
from harness.cli.app import app
from harness.cli.common import RESULTS, JsonOption, ResultsOption, TierOption, begin, write_report
from harness.progress import bar


@app.command(name="reproduce", epilog="Example: `placerl reproduce --tier quick`")
def reproduce_command(
    tier_name: TierOption = "quick",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure again what an earlier run finished.")
    ] = False,
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Measure, map, run and compare every workload of a tier; write the report; print the verdicts."""
    tier = tiers.tier(tier_name)
    cells = reproduce.plan(tier)
    opened = begin(results, tier, fresh)
    waiting = [cell for cell in cells if not reproduce.finished(opened, cell)]
    minutes = sum(cell.estimate_s for cell in waiting) / 60
    typer.echo(
        f"Tier {tier.name}: {len(cells)} cells, {len(cells) - len(waiting)} finished before "
        f"(--fresh measures them again), about {minutes:.0f} minutes to go.",
        err=True,
    )
    with bar("reproduce") as report:
        reproduce.execute(opened, cells, report)
    write_report(results, as_json)
    if failed := [cell.key for cell in cells if not reproduce.finished(opened, cell)]:
        typer.echo(f"Failed, {len(failed)}: {', '.join(failed)}; the next run tries them again.", err=True)
        raise typer.Exit(1)
