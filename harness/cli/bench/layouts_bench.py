"""Times the native sum tree with different memory layouts (the ablation of PAL IV-C4 and VI-H).

    placerl bench layouts [--capacities 1000,10000]

A layout is a fanout (children per node), and whether the groups of sibling nodes are aligned to cache lines. For each
capacity, trees with each layout sample and update batches in interleaved rounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer

from placerl.harness.cli.bench.command import Bench, cell, joined, numbers, section, shown
from placerl.harness.core.progress import Report
from placerl.harness.core.suites import Suite
from placerl.harness.measure.protocol import Case, Protocol, measure
from placerl.harness.measure.statistics import FEWEST_SAMPLES, lower_quartile
from placerl.harness.papers.tree_layouts import TreeLayout, check, priorities
from placerl.harness.store.rows import BenchResult
from placerl.primitives.sum_tree import SumTree

SUITE = Suite.BENCH_LAYOUTS
CAPACITIES = (10**3, 10**4, 10**5, 10**6, 10**7)
FANOUTS = (2, 4, 8, 16, 32, 64, 128, 256)
OPERATIONS = ("sample", "update")
BATCH_SIZE = 256


@dataclass(frozen=True, kw_only=True)
class LayoutResult(BenchResult, table="layout_result"):
    """The time of a call of a sum tree.

    Attributes:
        layout: the memory layout: children of a node, and whether their group is aligned.
    """

    layout: str = ""


def cases(operation: str, capacity: int, batch_size: int) -> list[Case[SumTree]]:
    """Return the functions to time: for each memory layout a case that calls one operation of a tree with this layout.

    Args:
        operation: "sample" or "update".
    """

    def case(fanout: int, aligned: bool) -> Case[SumTree]:
        layout = TreeLayout(capacity, fanout, aligned)

        def inputs(tree: SumTree, rng: np.random.Generator) -> tuple[Any, ...]:
            if operation == "sample":
                return (batch_size, rng)
            return (rng.integers(0, capacity, batch_size), priorities(rng, batch_size))

        return Case(
            name=f"K={fanout}, {'aligned' if aligned else 'not aligned'}",
            setup=layout.make,
            check=check,
            inputs=inputs,
            call=lambda tree, arguments: getattr(tree, operation)(*arguments),
        )

    return [case(fanout, aligned) for fanout in FANOUTS for aligned in (True, False)]


def table(rows: Sequence[LayoutResult]) -> str:
    """Return the results as Markdown: for each operation a table with a row per layout and a column per capacity."""
    lines = ["# Layouts of the native sum tree", ""]
    lines += [
        f"Microseconds a call of {rows[0].batch_size}, median [95% interval] over the rounds; provenance: measured; "
        "~ too noisy.",
        "",
    ]
    for primitive in dict.fromkeys(row.primitive for row in rows):
        mine = [row for row in rows if row.primitive == primitive]
        capacities = list(dict.fromkeys(row.capacity or 0 for row in mine))
        by_layout = {(row.capacity, row.layout): row for row in mine}
        layouts = dict.fromkeys(layout for _, layout in by_layout)
        cells = [
            [layout, *(shown(by_layout[size, layout], 1e6) for size in capacities)] for layout in layouts
        ]
        cells.append(
            ["fastest", *(_fastest([by_layout[size, one] for one in layouts]) for size in capacities)]
        )
        columns = ("layout", *(f"{capacity:,}" for capacity in capacities))
        lines += section(primitive.removeprefix("sum_tree."), columns, cells)
    failures = {f"- {row.layout}: {row.reason}" for row in rows if row.status == "failed"}
    return "\n".join([*lines, *sorted(failures)])


def _fastest(rows: Sequence[LayoutResult]) -> str:
    """Return the fastest layout, by the lower quartile that comparisons use."""
    timed = [row for row in rows if row.samples]
    return min(timed, key=lambda row: lower_quartile(row.samples)).layout if timed else "none"


def ablation(
    operation: str, capacity: int, batch_size: int, rounds: int, report: Report
) -> Sequence[LayoutResult]:
    """Time one operation of sum trees with every memory layout (fanout and alignment of node groups)."""
    timings = measure(
        cases(operation, capacity, batch_size),
        Protocol(rounds=rounds),
        progress=lambda done, total: report(done, total, "rounds"),
    )
    return [
        timing.measurement(
            LayoutResult,
            suite=SUITE,
            primitive=f"sum_tree.{operation}",
            backend="native",
            device="cpu",
            batch_size=batch_size,
            capacity=capacity,
            layout=timing.name,
        )
        for timing in timings.values()
    ]


def bench(
    rounds: Annotated[int, typer.Option("--rounds", min=FEWEST_SAMPLES, help="Samples of each case.")] = 15,
    capacities: Annotated[str, typer.Option("--capacities", help="Leaves, separated by commas.")] = joined(
        CAPACITIES
    ),
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Items of a call.")] = BATCH_SIZE,
) -> Bench[LayoutResult]:
    """Time the native sum tree with different fanouts, with and without aligned node groups (PAL VI-H)."""
    cells = [
        cell(f"{SUITE}/{operation}/{capacity}", partial(ablation, operation, capacity, batch_size, rounds))
        for operation in OPERATIONS
        for capacity in numbers("--capacities", capacities)
    ]
    return Bench(SUITE, LayoutResult, cells, table, selecting=("capacities",))
