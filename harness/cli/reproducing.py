"""Carries out what `placerl reproduce` was asked for: shows the plan, and measures here or on a cluster."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from placerl.harness.cli import plan_table
from placerl.harness.cli.common import cluster_extra, out, print_json
from placerl.harness.cli.screen import Screen
from placerl.harness.core.progress import bar
from placerl.harness.core.revision import revision, store_path
from placerl.harness.plan.tiers import NIGHT, NOT_AT_NIGHT, Tier
from placerl.harness.platforms import this_machine
from placerl.harness.platforms.machine import Machine
from placerl.harness.store.cell import Cell
from placerl.harness.store.peak_memory import recorded
from placerl.harness.store.store import Run, Store

if TYPE_CHECKING:
    from placerl.harness.papers import Claim


def warn_of_changed_designs() -> None:
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


def say_nothing_is_measured(tier: Tier, only: str, chosen: "Sequence[Claim]") -> None:
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


def show(tier: Tier, cells: list[Cell], results: Path, fresh: bool, as_json: bool) -> None:
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


def here(tier: Tier, cells: list[Cell], results: Path, fresh: bool) -> list[str]:
    """Measure on this machine; returns the keys of the failed cells."""
    from placerl.harness.plan import execution, side_by_side
    from placerl.harness.plan.predicting import begin

    measure = side_by_side.execute if tier is NIGHT else execution.execute
    opened = begin(results, tier, fresh)
    done = _done(opened, tier, cells)
    _print_plan(Screen(stderr=True), tier, cells, done, Machine(**opened.record.machine))
    with bar("reproduce") as report, recorded(opened):
        # Of another tier a finished cell may be due again when what it needs was measured.
        left = [cell for cell in cells if tier is not NIGHT or cell.key not in done]
        measure(opened, left, report, report.last)
    return [cell.key for cell in cells if cell.failed(opened)]


def on_cluster(address: str, tier: Tier, cells: list[Cell], results: Path, fresh: bool) -> list[str]:
    """Measure on the machines of a Ray cluster; returns the keys of the failed cells.

    The plan is printed as for this machine: the others are known only after connecting.
    """
    with cluster_extra(address):
        from placerl.harness.cluster import cells as on_cluster
        from placerl.harness.cluster.connection import connected
    here = this_machine.describe(measure_links=False)
    with connected(address), Store.open(store_path(results)) as store:
        done = set() if fresh else _finished(store, tier, cells, here)
        _print_plan(Screen(stderr=True), tier, cells, done, here)
        with bar("reproduce") as report:
            return on_cluster.execute(store, tier, cells, report, fresh=fresh)
