"""Times this project's sum trees and other libraries', in interleaved rounds, and writes one table.

    placerl bench replay [--build] [--capacities 131072] [--batch-sizes 32,256]

Each tree has its own process and virtual environment, is filled to its capacity, and is checked before anything
is timed. In each round every tree does one block of calls, one tree at a time, in a new random order. Each call
is a whole call from Python with its own arguments, including random numbers for `sample`. The native tree runs
twice, to show its difference from itself (A/A). For each operation, capacity and batch size, the table also shows
the fastest tree of another library, the memory floor (the time of a descent's memory accesses alone), the targets
and whether they are met. A tree that fails or takes too long has a row that says so.
"""

from collections.abc import Sequence
from functools import cache, partial
from typing import Annotated, Any

import numpy as np
import typer

from placerl.harness.cli.bench.command import Bench, BuildOption, cell, chosen, joined, numbers
from placerl.harness.cli.bench.replay_table import judged, table
from placerl.harness.cli.bench.tree_rows import (
    FLOORS,
    NULL,
    OURS,
    PEERS,
    TreeRow,
    TreeSamples,
    cell_samples,
    floor_rows,
    own_rows,
    peer_rows,
)
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Measurement, Row
from placerl.harness.core.suites import Suite
from placerl.harness.measure import statistics
from placerl.harness.measure.conditions import conditions
from placerl.harness.measure.rows import summary_row

NAME = Suite.BENCH_REPLAY
BATCH_SIZES = (32, 256, 2048, 16384)
CAPACITIES = (2**17, 2**20, 10**7)
OPERATIONS = ("sample", "update")


def measurement(
    operation: str, row: TreeRow, batch_size: int, samples: TreeSamples, details: dict[str, Any]
) -> Row:
    """Return a row of the store with the times of one tree, for one operation, capacity and batch size.

    Args:
        operation: "sample" or "update".
        row: the tree.
        samples: the tree's samples, or why it has none.
        details: further details of the row, such as the capacity.
    """
    own = {
        "version": row.version,
        "note": row.failure or row.note,
        "peer": row.peer,
        "null": row.name == NULL,
    }
    common: dict[str, Any] = {
        "suite": Suite.BENCH_REPLAY,
        "primitive": f"sum_tree.{operation}",
        "backend": OURS if row.name == NULL else row.name,
        "device": row.device,
        "batch_size": batch_size,
        "quantity": "time_per_call",
        "details": own | details,
    }
    if samples.seconds:
        return summary_row(Measurement, samples.seconds, **common)
    status = "not_run" if samples.reason.startswith("not run") else "failed"
    return Measurement(**common, provenance=Provenance.MEASURED, status=status, reason=samples.reason)


def measure(
    capacity: int,
    batch_sizes: Sequence[int],
    rounds: int,
    rows: Sequence[TreeRow],
    report: Report,
) -> Sequence[Row]:
    """Time sampling and updates of all trees at one capacity and several batch sizes.

    Args:
        capacity: number of leaves of every tree.
        batch_sizes: items per call.
        rounds: samples of each tree for each operation and batch size.
        rows: the trees, including those of `floor_rows`, which time memory accesses alone; failures are stored in them.

    Returns:
        For each operation and batch size the rows of all trees, then the rows that compare the native tree with others
        (`replay_table.judged`).
    """
    rng = np.random.default_rng(capacity)  # for the order of the turns and the seeds
    cells = [(operation, batch_size) for operation in OPERATIONS for batch_size in batch_sizes]
    steps = len(rows) + len(cells)
    for done, row in enumerate(rows):
        report(done, steps, f"filling {row.name}")
        row.fill(capacity)
    shared = {"capacity": capacity, "rounds": rounds, "conditions": conditions()}
    measured: list[Row] = []
    for done, (operation, batch_size) in enumerate(cells, len(rows)):
        report(done, steps, f"{operation} {batch_size}")
        wanted = {row.name: row.name if row.name in FLOORS else operation for row in rows}
        found = cell_samples(rows, wanted, batch_size, rounds, rng)
        cell = [measurement(operation, row, batch_size, found[row.name], shared) for row in rows]
        measured += [*cell, *judged(cell)]
    return measured


def bench(
    rounds: Annotated[
        int, typer.Option("--rounds", min=statistics.FEWEST_PAIRS, help="Samples of each cell.")
    ] = statistics.PAIRS,
    capacities: Annotated[str, typer.Option("--capacities", help="Leaves, separated by commas.")] = joined(
        CAPACITIES
    ),
    batch_sizes: Annotated[
        str, typer.Option("--batch-sizes", help="Items of a call, separated by commas.")
    ] = joined(BATCH_SIZES),
    peers: Annotated[
        str, typer.Option("--peers", help="Other libraries, separated by commas, or `none`.")
    ] = joined(PEERS),
    build: BuildOption = False,
) -> Bench[Row]:
    """Time this project's sum trees and other libraries', in interleaved rounds."""
    leaves, sizes = numbers("--capacities", capacities), numbers("--batch-sizes", batch_sizes)
    others = chosen("--peers", peers, PEERS)
    rows = cache(lambda: [*own_rows(), *peer_rows(others), *floor_rows()])

    def measured(capacity: int, report: Report) -> Sequence[Row]:
        return measure(capacity, sizes, rounds, rows(), report)

    def close() -> None:
        for row in rows():
            row.close()

    # A tree that fails at one capacity is not tried at a larger one.
    cells = [cell(f"{NAME}/{capacity}", partial(measured, capacity)) for capacity in sorted(leaves)]
    return Bench(
        NAME,
        Row,
        cells,
        table,
        selecting=("capacities", "build"),
        builds=others if build else (),
        close=close,
    )
