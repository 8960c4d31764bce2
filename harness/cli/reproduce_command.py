"""`placerl reproduce`."""

from pathlib import Path
from typing import Annotated

import typer

from harness import claims, reproduce, tiers
from harness.cli.app import app
from harness.cli.common import RESULTS, JsonOption, ResultsOption, TierOption, begin, store_path, write_report
from harness.errors import UserError
from harness.progress import bar
from harness.reproduce import Cell
from harness.store import Store
from harness.tiers import Tier


@app.command(name="reproduce", epilog="Example: `placerl reproduce --tier quick`")
def reproduce_command(
    tier_name: TierOption = "quick",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure again what an earlier run finished.")
    ] = False,
    ray: Annotated[
        str | None,
        typer.Option("--ray", help="Spread the cells over a Ray cluster: its address, or `local`."),
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            "--only", help="A paper's key (FIX) or a claim's (FIX-F7): measure what these claims read alone."
        ),
    ] = "",
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Measure, map, run and compare every workload of a tier; write the report; print the verdicts."""
    tier = tiers.tier(tier_name)
    cells = reproduce.plan(tier)
    if only:
        cells = reproduce.needed(cells, claims.claims(only))
    failed = _on_cluster(ray, tier, cells, results, fresh) if ray else _here(tier, cells, results, fresh)
    write_report(results, as_json)
    if failed:
        typer.echo(f"Failed, {len(failed)}: {', '.join(failed)}; the next run tries them again.", err=True)
        raise typer.Exit(1)


def _here(tier: Tier, cells: list[Cell], results: Path, fresh: bool) -> list[str]:
    """Measures on this machine; the keys of the cells that failed."""
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
    return [cell.key for cell in cells if not reproduce.finished(opened, cell)]


def _on_cluster(address: str, tier: Tier, cells: list[Cell], results: Path, fresh: bool) -> list[str]:
    """Measures on the machines of a Ray cluster; the keys of the cells that failed."""
    try:
        from harness.cluster import cells as on_cluster
    except ModuleNotFoundError as error:
        found = f"{address!r}, but {error.name} is not installed"
        raise UserError(
            "command line", "--ray", found, "with the extra 'cluster': pip install 'placerl[cluster]'"
        ) from None
    with on_cluster.connected(address), Store.open(store_path(results)) as store, bar("reproduce") as report:
        return on_cluster.execute(store, tier, cells, report, fresh=fresh)
