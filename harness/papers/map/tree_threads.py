"""Threads within one call of a sum tree: prefix sum index and priority update of a batch (MAP VII-C, Fig. 12)."""

import os
from dataclasses import dataclass
from functools import partial

import numpy as np

from harness.core.progress import Report
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.measure.conditions import conditions
from harness.measure.protocol import Case, Protocol, measure
from harness.papers.cells import Tier, claim_cell
from harness.papers.tree_layouts import check, priorities
from harness.store.cell import Cell
from primitives.sum_tree.atomic_tree import AtomicSumTree

EXPERIMENT = "threads in a call"
FIND, UPDATE = CALLS = ("sum_tree.find", "sum_tree.update")
BATCH_SIZES = (2048, 16384)
"""Below a thousand items or so no thread is woken; MAP Fig. 12 ends at 16384."""
THREADS = (1, 2)
CAPACITY = 1_000_000
FANOUT = 16
BLOCK_CALLS, LEAD_IN_CALLS = 4, 2
"""Calls of every block, timed and before its clock starts. The first calls find the caches as the other sides left
them; a block whose length follows the clock has more calls where they are shorter, and so seems faster than it is: in
blocks of 1 ms, 2 threads had 9 calls where one had 3, and were 2.5 times as fast."""
_NEVER_S = 60.0  # longer than any block: only the number of calls ends it


@dataclass(frozen=True)
class Side:
    """One line of the experiment: a call, its items, its threads, and whether it is the A/A null."""

    call: str
    batch_size: int
    threads: int
    null: bool


def sides() -> list[Side]:
    """Each call at each batch size with each number of threads, twice."""
    return [
        Side(call, size, threads, null)
        for call in CALLS
        for size in BATCH_SIZES
        for threads in THREADS
        for null in (False, True)
    ]


def case(side: Side, capacity: int = CAPACITY) -> Case[AtomicSumTree]:
    """What is timed for a side: a call on MAP's own tree, full."""

    def make() -> AtomicSumTree:
        tree = AtomicSumTree(capacity, FANOUT, side.threads)
        tree.update(np.arange(capacity), priorities(np.random.default_rng(0), capacity))
        return tree

    size = side.batch_size
    name = f"{side.call}, {size} items, {side.threads} threads{' (null)' if side.null else ''}"
    if side.call == FIND:
        return Case(
            name,
            make,
            check,
            lambda tree, rng: rng.uniform(0, tree.total, size),
            lambda tree, x: tree.find(x),
        )
    return Case(
        name,
        make,
        check,
        lambda tree, rng: (rng.integers(0, capacity, size), priorities(rng, size)),
        lambda tree, x: tree.update(*x),
    )


def measured(budget_s: float, report: Report) -> list[Measurement]:
    """Rows of suite "claim": seconds a call, all sides in the same interleaved rounds; not run with a core for less.

    Args:
        budget_s: begin no further round after this time, seconds.
        report: called with the progress.
    """
    if (cores := len(os.sched_getaffinity(0))) < max(THREADS):
        return [_not_run(f"{max(THREADS)} threads need as many cores, found {cores}")]
    cases = {side: case(side) for side in sides()}
    protocol = Protocol(
        budget_s=budget_s,
        warm_up_s=5e-3,
        block_s=_NEVER_S,
        largest_block=BLOCK_CALLS,
        lead_in_calls=LEAD_IN_CALLS,
    )
    timings = measure(
        list(cases.values()), protocol, progress=lambda done, total: report(done, total, EXPERIMENT)
    )
    return [
        timings[timed.name].measurement(
            suite="claim",
            primitive=side.call,
            backend=AtomicSumTree.backend,
            device="cpu",
            batch_size=side.batch_size,
            details={
                "experiment": EXPERIMENT,
                "threads": side.threads,
                "null": side.null,
                "capacity": CAPACITY,
                "fanout": FANOUT,
                "conditions": conditions(),
            },
        )
        for side, timed in cases.items()
    ]


def cells(tier: Tier) -> list[Cell]:
    """Both calls with each number of threads."""
    return [claim_cell("MAP-F12-threads", tier.experiment_s, partial(measured, tier.experiment_s))]


def _not_run(reason: str) -> Measurement:
    return Measurement(
        suite="claim",
        primitive=FIND,
        backend=AtomicSumTree.backend,
        device="cpu",
        quantity="time_per_call",
        provenance=Provenance.MEASURED,
        status="not_run",
        reason=reason,
        details={"experiment": EXPERIMENT},
    )
