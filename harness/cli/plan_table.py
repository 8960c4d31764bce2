"""Prints what a run of `placerl reproduce` will measure and how long it will take, before anything is measured."""

from collections.abc import Collection, Iterator, Sequence

from rich.console import Console
from rich.table import Table

from placerl.harness.plan.tiers import Tier
from placerl.harness.platforms.machine import Machine
from placerl.harness.store.cell import Cell


def kind_of(cell: Cell) -> str:
    """Return the group in which a cell (a unit of work of a run) is shown: its suite, and its workload or claim.

    These are the first two parts of the cell's key, such as "profile hopper-ddpg".
    """
    return " ".join(cell.key.split("/")[:2])


def show_plan(console: Console, tier: Tier, cells: Sequence[Cell], finished: Collection[str]) -> None:
    """Print what a run will measure and how long that takes, in groups of cells (`kind_of`)."""
    table = Table(title=f"Plan of the {tier.name} tier")
    for column in ("what", "cells", "finished", "minutes to go"):
        table.add_column(column, justify="left" if column == "what" else "right")
    kinds: dict[str, list[Cell]] = {}
    for cell in cells:
        kinds.setdefault(kind_of(cell), []).append(cell)
    for kind, some in kinds.items():
        done = sum(cell.key in finished for cell in some)
        table.add_row(kind, str(len(some)), str(done), f"{to_go_s(some, finished) / 60:.1f}")
    console.print(table)
    done = sum(cell.key in finished for cell in cells)
    console.print(
        f"Tier {tier.name}: {len(cells)} cells, {done} finished before (--fresh measures them again), "
        f"about {duration(to_go_s(cells, finished))} to go."
    )


def show_tests(console: Console, cells: Sequence[Cell], finished: Collection[str]) -> None:
    """Print how long each sequential test of a plan lasts, with one process; nothing if there is none."""
    from placerl.harness.plan import night

    for name, next_s, most_s in night.looks([c for c in cells if c.look and c.key not in finished]):
        text = f"{name}: {duration(next_s)} of one core to the next look, at most {duration(most_s)}"
        console.print(text, markup=False, soft_wrap=True)


def to_go_s(cells: Sequence[Cell], finished: Collection[str]) -> float:
    """Return the expected seconds of all cells (units of work) of a plan that are not finished yet."""
    return sum(cell.estimate_s for cell in cells if cell.key not in finished)


def duration(seconds: float) -> str:
    """Return a duration as text: in minutes, from two hours on in hours, from two days on in days."""
    for name, length_s in (("days", 86_400), ("hours", 3_600)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.1f} {name}"
    return f"{seconds / 60:.0f} minutes"


def left_out(machine: Machine) -> Iterator[str]:
    """Yield a line for each thing that this machine cannot run or measure, with the reason.

    These are CUDA devices, backends of primitives, and power in watts. Results that need them stay "not run".
    """
    if not any(a.kind == "cuda" and a.usable for a in machine.accelerators):
        reason = next((a.reason for a in machine.accelerators if a.kind == "cuda"), "no such device")
        yield f"everything on a CUDA device: {reason}"
    for backend in machine.backends:
        if not backend.available:
            yield f"{backend.primitive} on {backend.name}: {backend.reason}"
    if not any(meter.readable for meter in machine.power):
        yield "watts: " + "; ".join(f"{meter.name}: {meter.reason}" for meter in machine.power)
