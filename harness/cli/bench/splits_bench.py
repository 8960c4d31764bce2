"""Checks PAL's Equation 5 on this machine: the division of cores that it gives, in turns with its neighbours.

    placerl bench splits [--workloads cartpole-dqn,hopper-ddpg]

A neighbour has one core more or less for the actors (`harness.papers.pal.equation_5`). The goal, PAL's, is that no
neighbour is faster by more than 5%.
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from placerl.harness import workloads
from placerl.harness.cli.bench.command import Bench, chosen, joined, reached, section
from placerl.harness.papers.pal import equation_5
from placerl.harness.store.rows import ClaimRow
from placerl.harness.workloads import Workload

NAME = "bench-splits"
WORKLOADS = ("cartpole-dqn", "pendulum-sac", "hopper-ddpg")
AT_LEAST = 0.95
"""Rate of the division over that of a neighbour that meets the goal."""


def table(items: Sequence[Workload], rows: Sequence[ClaimRow]) -> str:
    """Return the results as Markdown: for each workload what was chosen, and a line for each neighbour.

    Args:
        rows: the rows of `equation_5.measure` of all workloads.
    """
    text = ["# Cores for actors and learners by PAL's Equation 5", ""]
    columns = ("neighbour", "gradient steps/s", "choice / its [95%]", f"at least {AT_LEAST:g}")
    for item in items:
        if not (mine := [row for row in rows if row.workload == item.name]):
            continue
        first, *_, lost = equation_5.lines(mine, item)
        cells = [
            [str(one.split), f"{one.rate:,.0f}", one.interval, reached(one.low, one.high, AT_LEAST)]
            for one in equation_5.compared(mine)
        ]
        text += [*section(item.name, columns, cells), f"{first}; {lost}.", ""]
    return "\n".join(text)


def bench(
    names: Annotated[str, typer.Option("--workloads", help="Workloads, separated by commas.")] = joined(
        WORKLOADS
    ),
) -> Bench[ClaimRow]:
    """Divide the cores between actors and learners by PAL's Equation 5, and compare with the neighbouring divisions."""
    items = [workloads.load(name) for name in chosen("--workloads", names, workloads.names())]
    for item in items:
        equation_5.check(item)
    return Bench(NAME, ClaimRow, [equation_5.cell(item) for item in items], partial(table, items), ("names",))
