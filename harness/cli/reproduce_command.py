"""The command `placerl reproduce`, the main job: it measures what the papers' claims need and writes the report."""

import os
from typing import Annotated

import typer

from placerl.harness.cli.app import app
from placerl.harness.cli.common import JsonOption, ResultsOption, exit_if_failed
from placerl.harness.cli.completion import TIERS, claims, completed
from placerl.harness.core.errors import UserError
from placerl.harness.core.revision import RESULTS, store_path


@app.command(name="reproduce", epilog="Example: `placerl reproduce --tier quick`")
def reproduce_command(
    tier_name: Annotated[
        str,
        typer.Option(
            "--tier",
            help=f"How much is measured: {', '.join(TIERS)}; night for what claims about learning need, on all "
            "cores, until they are decided: days, in pieces of 20 minutes.",
            autocompletion=completed(lambda: (*TIERS, "night")),
        ),
    ] = "quick",
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
            "--only",
            help="A paper's key (FIX) or a claim's (FIX-F7): measure what these claims read alone.",
            autocompletion=completed(claims),
        ),
    ] = "",
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Print what would be measured and how long that takes, and end.")
    ] = False,
    simulate: Annotated[
        bool,
        typer.Option(
            "--simulate",
            help="Simulate the hardware's cycles instead of looking them up in the committed table.",
        ),
    ] = False,
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Measure, map, train and compare every workload of a tier, write the report, and print what was found."""
    from placerl.harness import papers
    from placerl.harness.cli import reproducing
    from placerl.harness.cli.summary import write_report
    from placerl.harness.plan import night, plan, tiers
    from placerl.harness.plan.tiers import NIGHT
    from placerl.primitives.fpga.cycles.timed_block import SIMULATE_VARIABLE

    tier = tiers.tier(tier_name, NIGHT)
    if ray and tier is NIGHT:
        raise UserError("command line", "--ray", f"{ray} with --tier {tier.name}", "on this machine alone")
    if simulate:
        if ray:
            raise UserError("command line", "--simulate", f"with --ray {ray}", "on this machine alone")
        os.environ[SIMULATE_VARIABLE] = "1"  # also of the processes that this one starts
    cells = night.cells() if tier is NIGHT else plan.plan(tier)
    if only:
        chosen = papers.claims(only)
        cells = plan.needed(cells, chosen, tier)
        if not cells:
            reproducing.say_nothing_is_measured(tier, only, chosen)
    if plan_only:
        reproducing.show(tier, cells, results, fresh, as_json)
        return
    reproducing.warn_of_changed_designs()
    # An empty run would become the last one, which the report shows.
    if cells or not store_path(results).exists():
        asked = (tier, cells, results, fresh)
        failed = reproducing.on_cluster(ray, *asked) if ray else reproducing.here(*asked)
    else:
        failed = []
    write_report(results, as_json, only=only)
    exit_if_failed(failed)
