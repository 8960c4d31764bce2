"""Measures the cost of distributing a run's cells over a Ray cluster, and whether it changes the cells' results.

    placerl bench cluster [--nodes 1,2,4] [--cells 40] [--rounds 5]

A cell is a unit of work of a run, which one machine of the cluster carries out. All nodes are on this machine
(`ray.cluster_utils.Cluster`); each counts as one machine of the cluster. Cells that only wait show how many cells per
minute a number of nodes carries out, and what a cell costs beyond its own time: submission, transfer in both
directions, and storing the rows. A cell that times the native sum tree is measured in turns in this process and over
the cluster: the interval of the ratio of its times must contain 1.
"""

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from placerl.harness.cli.bench.command import Bench, cell, numbers, section, shown
from placerl.harness.cluster import cells as on_cluster
from placerl.harness.cluster.connection import MACHINE, connected, on_loopback
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report, silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import HowTimed, Row
from placerl.harness.core.suites import Suite
from placerl.harness.measure import statistics
from placerl.harness.measure.conditions import conditions
from placerl.harness.measure.turns import Rounds, in_rounds
from placerl.harness.plan import execution, tiers
from placerl.harness.store.cell import Cell
from placerl.harness.store.rows import BenchResult
from placerl.harness.store.store import Run, Store
from placerl.primitives import sum_tree

SUITE = Suite.BENCH_CLUSTER
CAPACITY, BATCH_SIZE, CALLS = 2**18, 256, 400
TIER = "quick"
CELL_S = 0.25
"""Seconds that a cell waits."""


@dataclass(frozen=True, kw_only=True)
class ClusterResult(BenchResult, table="cluster_result"):
    """How fast a cluster carries out cells, or how a cell's time differs over the cluster.

    Attributes:
        cell_s: seconds that a cell waits.
        driver_waiting_share: share of the time in which the process that hands out cells only waits.
    """

    nodes: int | None = None
    cells: int | None = None
    cell_s: float | None = None
    driver_waiting_share: float | None = None


def head_alone(folder: str) -> Any:
    """Start Ray's `Cluster` on this machine with a head that runs no work; the caller may add nodes."""
    from ray._common.utils import get_default_ray_temp_dir
    from ray.cluster_utils import Cluster

    # Ray always writes its address to the default folder, which a new machine does not have.
    Path(get_default_ray_temp_dir()).mkdir(parents=True, exist_ok=True)
    options = {"num_cpus": 0, "include_dashboard": False, "temp_dir": folder}
    return Cluster(initialize_head=True, head_node_args=options)


@contextmanager
def nodes(number: int) -> Iterator[str]:
    """Start a Ray cluster with `number` nodes on this machine, provide its address, and end it afterwards.

    Its processes listen on the loopback interface alone.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with (
        on_loopback(),
        tempfile.TemporaryDirectory(prefix="placerl-ray-", ignore_cleanup_errors=True) as folder,
    ):
        cluster = head_alone(folder)
        try:
            for _ in range(number):
                cluster.add_node(num_cpus=1, resources={MACHINE: 1})
            yield cluster.address
        finally:
            cluster.shutdown()


def waiting(key: str, seconds: float, chain: str = "") -> Cell:
    """Return a cell, a unit of work that a machine runs, that only waits.

    Args:
        chain: cells with the same non-empty word run on the same machine.
    """

    def measure(run: Run, report: Report) -> Sequence[Row]:
        begin_s = time.perf_counter()
        time.sleep(seconds)
        return [_row("cell_time", [time.perf_counter() - begin_s])]

    return Cell(key, seconds, measure, chain)


def timing(key: str) -> Cell:
    """Return a cell, a unit of work that a machine runs, which times the native sum tree's `sample`."""

    def measure(run: Run, report: Report) -> Sequence[Row]:
        rng = np.random.default_rng(0)
        tree = sum_tree.create(CAPACITY, backend="native")
        tree.update(np.arange(CAPACITY), rng.random(CAPACITY))
        samples = []
        for _ in range(CALLS):
            begin_s = time.perf_counter()
            tree.sample(BATCH_SIZE, rng)
            samples.append(time.perf_counter() - begin_s)
        return [_row("time_per_call", samples)]

    return Cell(key, 0, measure)


def _row(quantity: str, samples: Sequence[float], **columns: Any) -> ClusterResult:
    known = len(samples) >= statistics.FEWEST_SAMPLES
    low, high = statistics.interval(samples) if known else (None, None)
    return ClusterResult(
        suite=SUITE,
        primitive="cells",
        backend="ray",
        device="cpu",
        quantity=quantity,
        provenance=Provenance.MEASURED,
        value=float(np.median(samples)),
        low=low,
        high=high,
        samples=tuple(samples),
        timed=HowTimed(conditions=conditions()),
        **columns,
    )


def spread(number: int, cells: int, cell_s: float, rounds: int) -> Sequence[ClusterResult]:
    """Measure how fast a number of nodes carries out cells (units of work) that only wait.

    Returns:
        A row with the cells per minute, and one with the overhead per cell in seconds: the time of all nodes that was
        not spent in cells, divided by the number of cells.
    """
    rates, overheads, waited = [], [], []
    with nodes(number) as address, connected(address), tempfile.TemporaryDirectory() as folder:
        for attempt in range(-1, rounds):  # the first attempt starts processes and imports
            with Store.open(Path(folder) / f"{attempt}.sqlite") as store:
                work = [waiting(str(i), cell_s) for i in range(cells if attempt >= 0 else number)]
                # Starting and describing machines happens once per run, not once per cell.
                plan = on_cluster.ClusterPlan(store, tiers.tier(TIER), work)
                begin_s = time.perf_counter()
                outcome = plan.execute(silent)
                took_s = time.perf_counter() - begin_s
                own_s = sum(row.value or 0.0 for row in store.measurements())
            if attempt >= 0:
                rates.append(60 * cells / took_s)
                overheads.append((number * took_s - own_s) / cells)
                waited.append(outcome.waited_s / took_s)
    shared = {
        "nodes": number,
        "cells": cells,
        "cell_s": cell_s,
        "driver_waiting_share": float(np.median(waited)),
    }
    return [
        _row("cells_per_min", rates, **shared),
        _row("overhead_per_cell", overheads, **shared),
    ]


def same_numbers(pairs: int) -> Sequence[ClusterResult]:
    """Measure the same cell, a unit of work of a run, in this process and over a cluster of one node, in turns.

    Args:
        pairs: number of rounds. In each, the cell is measured twice in this process and once over the cluster.

    Returns:
        A row with the ratio of the time in this process to that over the cluster (`here_over_cluster`), and one with
        the ratio of the two in this process (`here_over_here`), which shows the noise.
    """
    numbers = itertools.count()
    with nodes(1) as address, connected(address), tempfile.TemporaryDirectory() as folder:

        def turn(measure: Callable[[Store, Cell], Sequence[float]]) -> float:
            number = next(numbers)
            with Store.open(Path(folder) / f"{number}.sqlite") as store:
                return float(statistics.lower_quartile(measure(store, timing(str(number)))))

        here = partial(turn, _here)
        sides = {"here": here, "there": partial(turn, _over_the_cluster), "again": here}
        times_s = in_rounds(sides, Rounds(pairs, warm_up=1))
    outcome = statistics.compare(times_s["here"], times_s["there"], times_s["again"])
    if outcome.ratio is None or outcome.null is None:
        raise UserError("bench cluster", "pairs", pairs, f"at least {statistics.FEWEST_PAIRS}")
    rows = []
    for quantity, ratio in (("here_over_cluster", outcome.ratio), ("here_over_here", outcome.null)):
        row = _row(
            quantity, [ratio.value], pairs=pairs, verdict=outcome.verdict, why_no_verdict=outcome.reason
        )
        rows.append(replace(row, low=ratio.low, high=ratio.high, samples=()))
    return rows


def _here(store: Store, cell: Cell) -> Sequence[float]:
    run = store.begin_run(TIER, "here", {"fingerprint": "here"})
    return execution.measure_now(run, cell, silent)[0].samples


def _over_the_cluster(store: Store, cell: Cell) -> Sequence[float]:
    on_cluster.execute(store, tiers.tier(TIER), [cell], silent)
    (row,) = store.measurements()
    return row.samples


def table(rows: Sequence[ClusterResult]) -> str:
    """Return the results of this benchmark as a report in Markdown."""
    lines = ["# Cells on a Ray cluster", "", "Several nodes on this one machine. Provenance: measured.", ""]
    columns = (
        "nodes",
        "cells a minute",
        "of what waiting alone allows",
        "overhead of a cell, ms",
        "driver waiting",
    )
    cells = []
    rates = {row.nodes: row for row in rows if row.quantity == "cells_per_min"}
    overheads = {row.nodes: row for row in rows if row.quantity == "overhead_per_cell"}
    for number, row in rates.items():
        assert row.value is not None
        extra = overheads[number]
        share = row.value / (60 * (number or 0) / (row.cell_s or 1.0))
        waiting = f"{row.driver_waiting_share:.0%}"
        overhead = shown(extra, 1e3, ",.1f")
        cells.append([str(number), shown(row, 1, ",.1f"), f"{share:.0%}", overhead, waiting])
    lines += section("Throughput", columns, cells)
    for row in rows:
        if row.quantity.startswith("here_over"):
            verdict = f": {row.verdict}" if row.quantity == "here_over_cluster" else ""
            lines.append(f"- {row.quantity.replace('_', ' ')}: {shown(row, 1, '.3f')}{verdict}")
    return "\n".join(lines)


def bench(
    machines: Annotated[
        str, typer.Option("--nodes", help="Numbers of nodes, separated by commas.")
    ] = "1,2,4",
    cells: Annotated[int, typer.Option("--cells", min=1, help="Cells per round.")] = 40,
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, help="Runs with each number of nodes.")
    ] = statistics.FEWEST_SAMPLES,
) -> Bench[ClusterResult]:
    """Measure what it costs to spread a run's work over a Ray cluster, and whether that changes the results."""

    def measured(count: int, report: Report) -> Sequence[Row]:
        return spread(count, cells, CELL_S, rounds)

    throughput = [
        cell(f"{SUITE}/nodes{count}", partial(measured, count)) for count in numbers("--nodes", machines)
    ]
    same = cell(f"{SUITE}/same", lambda _: same_numbers(statistics.PAIRS))
    return Bench(SUITE, ClusterResult, [*throughput, same], table, selecting=("machines",))
