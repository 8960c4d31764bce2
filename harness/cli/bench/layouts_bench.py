"""Times the native sum tree with different memory layouts (the ablation of PAL IV-C4 and VI-H).

    placerl bench layouts [--capacities 1000,10000]

A layout is a fanout (children per node), and whether the groups of sibling nodes are aligned to cache lines. For each
capacity, trees with each layout sample and update batches in interleaved rounds.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import numpy as np
import typer

from placerl.harness.cli.bench.command import OutOption, Session, TierOption, joined, numbers, section
from placerl.harness.cli.common import ResultsOption
from placerl.harness.core.progress import Report
from placerl.harness.core.row import Measurement, Row
from placerl.harness.core.suites import Suite
from placerl.harness.measure.protocol import Case, Protocol, Timing, measure
from placerl.harness.measure.statistics import FEWEST_SAMPLES, lower_quartile
from placerl.harness.papers.tree_layouts import TreeLayout, check, priorities
from placerl.harness.plan.predicting import RESULTS
from placerl.primitives.sum_tree import SumTree

CAPACITIES = (10**3, 10**4, 10**5, 10**6, 10**7)
FANOUTS = (2, 4, 8, 16, 32, 64, 128, 256)
OPERATIONS = ("sample", "update")
BATCH_SIZE = 256


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


def table(timings: dict[tuple[str, int], dict[str, Timing]], batch_size: int) -> str:
    """Return the results as Markdown: for each operation a table with a row per layout and a column per capacity.

    Args:
        timings: timings of the layouts, by operation and capacity.
    """
    lines = ["# Layouts of the native sum tree", ""]
    lines += [
        f"Microseconds a call of {batch_size}, median over the rounds; provenance: measured; ~ too noisy.",
        "",
    ]
    for operation in OPERATIONS:
        columns = {capacity: found for (name, capacity), found in timings.items() if name == operation}
        cells = []
        for layout in next(iter(columns.values())):
            texts = [_text(found[layout]) for found in columns.values()]
            cells.append([layout, *texts])
        best = [_fastest(found.values()) for found in columns.values()]
        cells.append(["fastest", *best])
        lines += section(operation, ("layout", *(f"{capacity:,}" for capacity in columns)), cells)
    failures = {
        f"- {t.name}: {t.reason}"
        for found in timings.values()
        for t in found.values()
        if t.status == "failed"
    }
    return "\n".join([*lines, *sorted(failures)])


def _fastest(timings: Iterable[Timing]) -> str:
    """Return the fastest layout, by the lower quartile that comparisons use."""
    timed = [timing for timing in timings if timing.samples_s]
    return min(timed, key=lambda t: lower_quartile(t.samples_s)).name if timed else "none"


def _text(timing: Timing) -> str:
    if timing.median_s is None:
        return timing.status
    return f"{'~' if timing.status == 'too_noisy' else ''}{timing.median_s * 1e6:.3g}"


def ablation(
    capacities: Sequence[int], batch_size: int, rounds: int, report: Report
) -> tuple[dict[tuple[str, int], dict[str, Timing]], Sequence[Row]]:
    """Time sum trees with every memory layout (fanout and alignment of node groups) at every capacity.

    Args:
        capacities: numbers of leaves.
        rounds: samples of each case.

    Returns:
        The timings by operation and capacity, then by layout; and the same as rows of the store.
    """
    timings: dict[tuple[str, int], dict[str, Timing]] = {}
    rows: list[Row] = []
    steps = [(operation, capacity) for operation in OPERATIONS for capacity in capacities]
    for done, (operation, capacity) in enumerate(steps):
        report(done, len(steps), f"{operation}, {capacity} leaves")
        found = measure(cases(operation, capacity, batch_size), Protocol(rounds=rounds))
        timings[operation, capacity] = found
        common: dict[str, Any] = {
            "suite": Suite.BENCH_LAYOUTS,
            "backend": "native",
            "device": "cpu",
            "batch_size": batch_size,
        }
        rows += [
            timing.measurement(
                Measurement,
                **common,
                primitive=f"sum_tree.{operation}",
                details={"capacity": capacity, "layout": timing.name},
            )
            for timing in found.values()
        ]
    return timings, rows


def main(
    rounds: Annotated[int, typer.Option("--rounds", min=FEWEST_SAMPLES, help="Samples of each case.")] = 15,
    capacities: Annotated[str, typer.Option("--capacities", help="Leaves, separated by commas.")] = joined(
        CAPACITIES
    ),
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Items of a call.")] = BATCH_SIZE,
    out: OutOption = RESULTS / "bench-layouts",
    results: ResultsOption = RESULTS,
    tier: TierOption = "quick",
) -> None:
    """Time the native sum tree with different fanouts, with and without aligned node groups (PAL VI-H)."""
    leaves = numbers("--capacities", capacities)
    session = Session.begin(out, results, tier)
    timings: dict[tuple[str, int], dict[str, Timing]] = {}

    def measured(report: Report) -> Sequence[Row]:
        found, rows = ablation(leaves, batch_size, rounds, report)
        timings.update(found)
        return rows

    session.measure("bench-layouts", measured)
    session.write(table(timings, batch_size))
