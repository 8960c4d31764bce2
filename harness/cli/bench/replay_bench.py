"""Times this project's sum trees and other libraries', in interleaved rounds, and writes one table.

    placerl bench replay [--build] [--capacities 131072] [--batch-sizes 32,256]

Each tree has its own process and virtual environment, is filled to its capacity, and is checked before anything
is timed. In each round every tree does one block of calls, one tree at a time, in a new random order. Each call
is a whole call from Python with its own arguments, including random numbers for `sample`. An update may leave work
to the next sample, so both are also timed in turn. The native tree runs twice, to show its difference from itself
(A/A). For each operation, capacity and batch size, the table also shows the fastest tree of another library, PAL's
own tree, the memory floor (the time of a descent's memory accesses alone), the targets and whether they are met. A
tree that fails or takes too long has a row that says so.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Annotated

import numpy as np
import typer

from placerl.harness.cli.bench import tree_rows
from placerl.harness.cli.bench.command import Bench, BuildOption, RoundsOption, cell, chosen, joined, numbers
from placerl.harness.cli.bench.replay_table import TreeResult, judged, table
from placerl.harness.cli.bench.tree_rows import (
    BLOCK_S,
    CELL_LIMIT_S,
    LARGEST_BLOCK,
    NULL,
    OURS,
    PEERS,
    TreeRow,
    floor_rows,
    own_rows,
    pal_rows,
    peer_rows,
    within_limit,
)
from placerl.harness.core.progress import Report
from placerl.harness.core.suites import Suite
from placerl.harness.measure import protocol as protocol_of_cases
from placerl.harness.measure import statistics
from placerl.harness.measure.protocol import Protocol, Timing

NAME = Suite.BENCH_REPLAY
BATCH_SIZES = (32, 256, 2048, 16384)
CAPACITIES = (2**17, 2**20, 10**7)
OPERATIONS = ("sample", "update", "update_and_sample")


def measure(
    capacity: int,
    batch_sizes: Sequence[int],
    rounds: int,
    rows: Sequence[TreeRow],
    report: Report,
) -> Sequence[TreeResult]:
    """Time samples, updates, and both in turn, of all trees at one capacity and several batch sizes.

    Args:
        rows: the trees, including those of `floor_rows`, which time memory accesses alone; failures are stored in them.

    Returns:
        For each operation and batch size the rows of all trees, then the rows that compare the native tree with others
        (`replay_table.judged`).
    """
    rng = np.random.default_rng(capacity)
    cells = [(operation, batch_size) for operation in OPERATIONS for batch_size in batch_sizes]
    steps = len(rows) + len(cells)
    for done, row in enumerate(rows):
        report(done, steps, f"filling {row.name}")
        row.fill(capacity)
    results: list[TreeResult] = []
    for done, (operation, batch_size) in enumerate(cells, len(rows)):
        report(done, steps, f"{operation} {batch_size}")
        protocol = Protocol(
            rounds=rounds,
            block_s=BLOCK_S,
            warm_up_s=0.0,
            largest_block=LARGEST_BLOCK,
            long_block_s=CELL_LIMIT_S,
            seed=int(rng.integers(2**32)),
        )
        cases = [tree_rows.case(row, operation, batch_size, rng) for row in rows if not row.failure]
        timings = protocol_of_cases.measure(cases, protocol, narrow=within_limit)
        timed = [_row(operation, batch_size, capacity, row, timings.get(row.name)) for row in rows]
        results += [*timed, *judged(timed)]
    return results


def _row(operation: str, batch_size: int, capacity: int, tree: TreeRow, timing: Timing | None) -> TreeResult:
    """Return the row of one tree; one that failed, or was not run, has the reason."""
    why = tree.failure
    result = (timing or Timing(tree.name, "failed", why)).measurement(
        TreeResult,
        suite=NAME,
        primitive=f"sum_tree.{operation}",
        backend=OURS if tree.name == NULL else tree.name,
        device=tree.device,
        batch_size=batch_size,
        capacity=capacity,
        null=tree.name == NULL,
        peer=tree.peer,
        version=tree.version,
        note=tree.note,
    )
    if not why:
        return result
    return replace(result, status="not_run" if why.startswith("not run") else "failed", reason=why)


def bench(
    rounds: RoundsOption = statistics.PAIRS,
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
) -> Bench[TreeResult]:
    """Time this project's sum trees and other libraries', in interleaved rounds."""
    leaves, sizes = numbers("--capacities", capacities), numbers("--batch-sizes", batch_sizes)
    others = chosen("--peers", peers, PEERS)
    rows = cache(lambda: [*own_rows(), *pal_rows(), *peer_rows(others), *floor_rows()])

    def measured(capacity: int, report: Report) -> Sequence[TreeResult]:
        return measure(capacity, sizes, rounds, rows(), report)

    def close() -> None:
        for row in rows():
            row.close()

    # A tree that fails at one capacity is not tried at a larger one.
    cells = [cell(f"{NAME}/{capacity}", partial(measured, capacity)) for capacity in sorted(leaves)]
    return Bench(
        NAME,
        TreeResult,
        cells,
        table,
        selecting=("capacities", "build"),
        builds=others if build else (),
        close=close,
    )
