"""`make bench-replay`: every sum tree in one table, timed in interleaved rounds.

    python -P -m harness.cli.bench.replay_bench [--build] [--capacities 131072 ...] [--batch-sizes 32 256 ...]

Each tree lives in a process of its own, in its own environment, filled to its capacity and checked before anything is
timed. In each round every tree does one block of calls, one tree at a time, in an order drawn anew; each call is a
whole call from Python with arguments of its own, random numbers included in `sample`. The native tree runs twice, so
that it is seen by how much it differs from itself (A/A). Beside each cell stand the fastest peer, the memory floor,
the targets and whether they are met. A tree that fails, or takes too long, is a row that says so.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from harness.cli.bench import command
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
        "unit": "s",
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark, stores its rows and writes `table.md`."""
    parser = command.parser("Time every sum tree, interleaved.", "bench-replay")
    parser.add_argument("--rounds", type=int, default=statistics.PAIRS, help="samples of each cell")
    parser.add_argument("--capacities", type=int, nargs="+", default=CAPACITIES)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=BATCH_SIZES)
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS)
    parser.add_argument("--build", action="store_true", help="make the peers' environments where missing")
    options = parser.parse_args(arguments)
    if options.rounds < statistics.FEWEST_PAIRS:
        parser.error(f"--rounds: found {options.rounds}; allowed: at least {statistics.FEWEST_PAIRS}")
    for name in ("capacities", "batch_sizes"):
        if min(getattr(options, name)) < 1:
            parser.error(
                f"--{name.replace('_', '-')}: found {min(getattr(options, name))}; allowed: at least 1"
            )
    run = command.open_run(options)
    if options.build:
        registry.build_baselines(options.peers)
    rows = [*own_rows(), *peer_rows(options.peers)]
    rows += floor_rows(rows)
    rng = np.random.default_rng(0)
    measured: list[Measurement] = []
    try:
        for capacity in sorted(options.capacities):  # a tree that fails at one is not tried at a larger one
            measured += command.measure_cell(
                run,
                f"bench-replay/{capacity}",
                partial(measure, capacity, options.batch_sizes, options.rounds, rows, rng),
            )
    finally:
        for row in rows:
            row.close()
    command.write_table(options, table(measured, rows))
    return 0


if __name__ == "__main__":
    command.finish(main)
