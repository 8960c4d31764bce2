"""The command `placerl reproduce`, the main job: it measures what the papers' claims need and writes the report."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from placerl.harness.cli import plan_table
from placerl.harness.cli.app import app
from placerl.harness.cli.common import (
    JsonOption,
    ResultsOption,
    cluster_extra,
    exit_if_failed,
    out,
    print_json,
)
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import bar
from placerl.harness.core.revision import RESULTS, revision, store_path
from placerl.harness.plan import tiers
from placerl.harness.plan.tiers import NIGHT, NOT_AT_NIGHT, TIERS, Tier
from placerl.harness.platforms import this_machine
from placerl.harness.platforms.this_machine import Machine
from placerl.harness.store.cell import Cell
from placerl.harness.store.peak_memory import recorded
from placerl.harness.store.store import Run, Store

if TYPE_CHECKING:
    from placerl.harness.papers import Claim


@app.command(name="reproduce", epilog="Example: `placerl reproduce --tier quick`")
def reproduce_command(
    tier_name: Annotated[
        str,
        typer.Option(
            "--tier",
            help=f"How much is measured: {', '.join(TIERS)}; {NIGHT.name} for what claims about learning need, on all "
            "cores, until they are decided: days, in pieces of 20 minutes.",
            autocompletion=lambda: [*TIERS, NIGHT.name],
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
            "--only", help="A paper's key (FIX) or a claim's (FIX-F7): measure what these claims read alone."
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
    from placerl.harness.cli.summary import write_report
    from placerl.harness.plan import night, plan
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
            _say_nothing_is_measured(tier, only, chosen)
    if plan_only:
        _show_plan(tier, cells, results, fresh, as_json)
        return
    _warn_of_changed_designs()
    # An empty run would become the last one, which the report shows.
    if cells or not store_path(results).exists():
        failed = _on_cluster(ray, tier, cells, results, fresh) if ray else _here(tier, cells, results, fresh)
    else:
        failed = []
    write_report(results, as_json, only=only)
    exit_if_failed(failed)


def _warn_of_changed_designs() -> None:
    """Say in one line which designs have changed since the table of cycles was written, if any have."""
    from placerl.primitives.fpga.cycles.blocks import changed_designs
    from placerl.primitives.fpga.cycles.timed_block import WAY_OUT, simulating, unavailable_reason

    if unavailable_reason() or simulating():
        return
    if changed := changed_designs():
        said = (
            f"The table of cycles lacks {len(changed)} designs, whose code has changed: {', '.join(changed)}"
        )
        typer.echo(f"{said}; {WAY_OUT}.", err=True)


def _say_nothing_is_measured(tier: Tier, only: str, chosen: "Sequence[Claim]") -> None:
    """Say that nothing is measured, and which tier or command measures something."""
    from placerl.harness.plan import plan

    typer.echo(f"Tier {tier.name} measures nothing for {only}.", err=True)
    for claim in chosen:
        larger = plan.tier_for(claim, tier.name)
        for command in claim.commands:
            if command != "placerl report":
                typer.echo(f"{claim.key} is measured by: {command}", err=True)
        if not claim.commands and larger != tier.name:
            typer.echo(
                f"{claim.key} is measured by: placerl reproduce --only {claim.key} --tier {larger}", err=True
            )


def _show_plan(tier: Tier, cells: list[Cell], results: Path, fresh: bool, as_json: bool) -> None:
    """Print the plan; write nothing."""
    here = this_machine.describe(measure_links=False)
    done: set[str] = set()
    path = store_path(results)
    if path.exists() and not fresh:
        with Store.open(path, read_only=True) as store:
            done = _finished(store, tier, cells, here)
    if as_json:
        print_json(
            {
                "cells": [
                    {"key": c.key, "estimate_s": c.estimate_s, "finished": c.key in done} for c in cells
                ],
                "to_go_s": plan_table.to_go_s(cells, done),
                "left_out": list(plan_table.left_out(here)),
            }
        )
        return
    _print_plan(out, tier, cells, done, here)


def _finished(store: Store, tier: Tier, cells: list[Cell], here: Machine) -> set[str]:
    """Return the keys of the cells that are not due in this machine's last run of this revision and tier."""
    runs = [r for r in store.runs() if (r.tier, r.fingerprint) == (tier.name, here.fingerprint)]
    if tier is not NIGHT:
        runs = [r for r in runs if r.revision == revision()]
    return _done(Run(store, runs[-1]), tier, cells) if runs else set()


def _done(run: Run, tier: Tier, cells: Sequence[Cell]) -> set[str]:
    """Return the keys of the cells that are not due in a run.

    In a plan of days what an earlier revision of the code has measured counts.
    """
    from placerl.harness.plan import within

    done = {cell.key for cell in cells if not cell.due(run)}
    return done | within.held(run.counted(), cells) if tier is NIGHT else done


def _print_plan(console: Console, tier: Tier, cells: list[Cell], done: set[str], here: Machine) -> None:
    """Print the plan, its time, and what this machine cannot run."""
    plan_table.show_plan(console, tier, cells, done)
    plan_table.show_tests(console, cells, done)
    for line in (*plan_table.left_out(here), *(NOT_AT_NIGHT if tier is NIGHT else ())):
        console.print(f"Left out here: {line}", markup=False, soft_wrap=True)


def _here(tier: Tier, cells: list[Cell], results: Path, fresh: bool) -> list[str]:
    """Measure on this machine; returns the keys of the failed cells."""
    from placerl.harness.plan import plan, side_by_side
    from placerl.harness.plan.predicting import begin

    measure = side_by_side.execute if tier is NIGHT else plan.execute
    opened = begin(results, tier, fresh)
    done = _done(opened, tier, cells)
    _print_plan(Console(stderr=True), tier, cells, done, Machine(**opened.record.machine))
    with bar("reproduce") as report, recorded(opened):
        # Of another tier a finished cell may be due again when what it needs was measured.
        left = [cell for cell in cells if tier is not NIGHT or cell.key not in done]
        measure(opened, left, report, report.last)
    return [cell.key for cell in cells if cell.failed(opened)]


def _on_cluster(address: str, tier: Tier, cells: list[Cell], results: Path, fresh: bool) -> list[str]:
    """Measure on the machines of a Ray cluster; returns the keys of the failed cells.

    The plan is printed as for this machine: the others are known only after connecting.
    """
    with cluster_extra(address):
        from placerl.harness.cluster import cells as on_cluster
        from placerl.harness.cluster.connection import connected
    here = this_machine.describe(measure_links=False)
    with connected(address), Store.open(store_path(results)) as store:
        done = set() if fresh else _finished(store, tier, cells, here)
        _print_plan(Console(stderr=True), tier, cells, done, here)
        with bar("reproduce") as report:
            return on_cluster.execute(store, tier, cells, report, fresh=fresh)
