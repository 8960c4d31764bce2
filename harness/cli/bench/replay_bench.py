"""Every sum tree in one table, timed in interleaved rounds.

    placerl bench replay [--build] [--capacities 131072] [--batch-sizes 32,256]

Each tree lives in a process of its own, in its own environment, filled to its capacity and checked before anything is
timed. In each round every tree does one block of calls, one tree at a time, in an order drawn anew; each call is a
whole call from Python with arguments of its own, random numbers included in `sample`. The native tree runs twice, so
that it is seen by how much it differs from itself (A/A). Beside each cell stand the fastest peer, the memory floor,
the targets and whether they are met. A tree that fails, or takes too long, is a row that says so.
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer

from harness.cli.bench.command import OutOption, Session, TierOption, chosen, joined, numbers
from harness.cli.bench.replay_table import judged, table
from harness.cli.bench.tree_rows import (
    FLOORS,
    NULL,
    OURS,
    PEERS,
    Row,
    Samples,
    cell_samples,
    floor_rows,
    own_rows,
    peer_rows,
)
from harness.cli.common import RESULTS, ResultsOption
from harness.compare import registry
from harness.core.progress import Report
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.measure import statistics
from harness.measure.conditions import conditions
from harness.measure.rows import sampled

BATCH_SIZES = (32, 256, 2048, 16384)
CAPACITIES = (2**17, 2**20, 10**7)
OPERATIONS = ("sample", "update")


def measurement(
    operation: str, row: Row, batch_size: int, samples: Samples, details: dict[str, Any]
) -> Measurement:
    """One tree in one cell."""
    own = {"version": row.version, "note": row.note, "peer": row.peer, "null": row.name == NULL}
    common: dict[str, Any] = {
        "suite": "bench-replay",
        "primitive": f"sum_tree.{operation}",
        "backend": OURS if row.name == NULL else row.name,
        "device": row.device,
        "batch_size": batch_size,
        "quantity": "time_per_call",
        "details": own | details,
    }
    if samples.seconds:
        return sampled(samples.seconds, **common)
    status = "not_run" if samples.reason.startswith("not run") else "failed"
    return Measurement(**common, provenance=Provenance.MEASURED, status=status, reason=samples.reason)


def measure(
    capacity: int,
    batch_sizes: Sequence[int],
    rounds: int,
    rows: Sequence[Row],
    rng: np.random.Generator,
    report: Report,
) -> list[Measurement]:
    """Every cell of one capacity, and what the native tree reached in it.

    Args:
        capacity: leaves of every tree.
        batch_sizes: items of a call.
        rounds: samples of a cell.
        rows: the trees; failures stay with them. `floor_rows` among them.
        rng: orders and seeds.
        report: called with the progress.
    """
    cells = [(operation, batch_size) for operation in OPERATIONS for batch_size in batch_sizes]
    steps = len(rows) + len(cells)
    for done, row in enumerate(rows):
        report(done, steps, f"filling {row.name}")
        row.fill(capacity)
    shared = {"capacity": capacity, "rounds": rounds, "conditions": conditions()}
    measured: list[Measurement] = []
    for done, (operation, batch_size) in enumerate(cells, len(rows)):
        report(done, steps, f"{operation} {batch_size}")
        wanted = {row.name: row.name if row.name in FLOORS else operation for row in rows}
        found = cell_samples(rows, wanted, batch_size, rounds, rng)
        cell = [measurement(operation, row, batch_size, found[row.name], shared) for row in rows]
        measured += [*cell, *judged(cell)]
    return measured


def main(
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
    build: Annotated[
        bool, typer.Option("--build", help="Make the peers' environments where they are missing.")
    ] = False,
    out: OutOption = RESULTS / "bench-replay",
    results: ResultsOption = RESULTS,
    tier: TierOption = "quick",
) -> None:
    """Time every sum tree next to other libraries' own, in one interleaved table."""
    leaves, sizes = numbers("--capacities", capacities), numbers("--batch-sizes", batch_sizes)
    others = chosen("--peers", peers, PEERS)
    session = Session.begin(out, results, tier)
    if build:
        registry.build_baselines(others)
    rows = [*own_rows(), *peer_rows(others)]
    rows += floor_rows(rows)
    rng = np.random.default_rng(0)
    measured: list[Measurement] = []
    try:
        for capacity in sorted(leaves):  # a tree that fails at one is not tried at a larger one
            timed = partial(measure, capacity, sizes, rounds, rows, rng)
            measured += session.measure(f"bench-replay/{capacity}", timed)
    finally:
        for row in rows:
            row.close()
    session.write(table(measured, rows))
