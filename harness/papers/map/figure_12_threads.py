"""Times a sum tree's calls that divide a batch among threads (MAP VII-C, Fig. 12)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.measure.protocol import Case, Protocol, measure
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.cells import experiment_cells
from placerl.harness.papers.evidence import Paired, paired, rows_of
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.papers.map.atomic_tree import AtomicSumTree
from placerl.harness.papers.number import integers
from placerl.harness.papers.tree_layouts import check, priorities

FIND, UPDATE = CALLS = ("sum_tree.find", "sum_tree.update")
NAMES = {FIND: "prefix sum index", UPDATE: "priority update"}
"""Names of the calls, as readers see them."""
BATCH_SIZES = (2048, 16384)
"""Items per call. Below about a thousand items no second thread is used; MAP Fig. 12 ends at 16384."""
THREADS = (1, 2)
CAPACITY = 1_000_000
(FANOUT,) = integers("MAP.fanout")
"""K of MAP's trees (VII-A)."""
BLOCK_CALLS, LEAD_IN_CALLS = 4, 2
"""Timed calls per block, and untimed calls before its clock starts, which refill the caches.

The number of calls is fixed. A block whose length depends on the clock has more calls if they are shorter, and so
seems faster than it is: in blocks of 1 ms, 2 threads had 9 calls where one had 3, and seemed 2.5 times as fast.
"""
_NEVER_S = 60.0  # longer than any block, so that only the number of calls ends it
NEGLIGIBLE = 1.1
"""Speedup of two threads over one up to which threads neither gain nor lose.

MAP's "almost negligible" improvement (VII-C) has no number.
"""
NEEDS = "the experiment MAP-F12-threads: a sum tree's calls with one and with two threads, a core each"


@dataclass(frozen=True)
class ThreadedSide(Columns):
    """One configuration that is timed, a call of a sum tree that divides a batch among threads, and its columns.

    Attributes:
        call: the call: `FIND` (find leaves by prefix sums) or `UPDATE` (update priorities).
        batch_size: items per call.
        null: whether it is the second copy of this configuration, which shows the noise.
    """

    call: str
    batch_size: int
    threads: int
    null: bool
    capacity: int = CAPACITY
    fanout: int | None = None


EXPERIMENT = Experiment(
    "threads in a call", "threads within one call of a sum tree", "time_per_call", ThreadedSide
)


def sides() -> list[ThreadedSide]:
    """Return the configurations to time: find and update at each batch size with each number of threads.

    Each configuration occurs twice; the second copy shows the noise.
    """
    return [
        ThreadedSide(call, size, threads, null, fanout=FANOUT)
        for call in CALLS
        for size in BATCH_SIZES
        for threads in THREADS
        for null in (False, True)
    ]


def case(side: ThreadedSide, capacity: int = CAPACITY) -> Case[AtomicSumTree]:
    """Return the case (what the timing protocol sets up, checks and calls) of one configuration.

    A call finds or updates the items of a batch in a full tree, with MAP's own algorithms.
    """

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


def measured(budget_s: float, report: Report) -> Sequence[Row]:
    """Measure the seconds per call of a sum tree with several numbers of threads, all in the same interleaved rounds.

    Returns:
        One measurement per configuration (call, batch size and number of threads). If this process has fewer cores
        than the most threads, there is only one, which was not run.
    """
    if (cores := len(usable_cores())) < max(THREADS):
        return [
            EXPERIMENT.not_run(
                f"{max(THREADS)} threads need as many cores, found {cores}",
                primitive=FIND,
                backend=AtomicSumTree.backend,
                device="cpu",
                quantity="time_per_call",
            )
        ]
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
        EXPERIMENT.timing(
            timings[timed.name],
            side,
            primitive=side.call,
            backend=AtomicSumTree.backend,
            device="cpu",
            batch_size=side.batch_size,
        )
        for side, timed in cases.items()
    ]


def _scaling(frame: pd.DataFrame, call: str, fanout: int | None) -> list[Paired]:
    """Return the speedup of the most threads over one on trees of a fanout, at each batch size."""
    by_size: dict[int, dict[tuple[int, bool], object]] = {}
    for row in rows_of(frame, EXPERIMENT, "time_per_call", primitive=call):
        if row.parameters.fanout == fanout:
            side = row.parameters.threads, row.parameters.null
            by_size.setdefault(int(row.batch_size), {})[side] = row
    one, most = min(THREADS), max(THREADS)
    return [
        paired(
            f"{NAMES[call]}, batch size {size}: {most} threads over {one}",
            rows[most, False],
            rows[most, True],
            rows[one, False],
            at_most=most / one,
        )
        for size, rows in sorted(by_size.items())
        if {(one, False), (most, False), (most, True)} <= rows.keys()
    ]


def _timed_fanout(frame: pd.DataFrame) -> int | None:
    """Return MAP's K if trees with it were timed, else that of the timed ones, which rows may not state."""
    timed = {row.parameters.fanout for row in rows_of(frame, EXPERIMENT, "time_per_call")}
    return FANOUT if FANOUT in timed or not timed else min(timed, key=str)


def _gains(scaled: Paired) -> bool:
    """Return whether more threads are faster by a factor of more than `NEGLIGIBLE`, beyond the noise."""
    return scaled.outcome.verdict == "faster" and _bounds(scaled)[0] > NEGLIGIBLE


def _loses(scaled: Paired) -> bool:
    """Return whether more threads are slower by a factor of more than `NEGLIGIBLE`, beyond the noise."""
    return scaled.outcome.verdict == "slower" and _bounds(scaled)[1] < 1 / NEGLIGIBLE


def _bounds(scaled: Paired) -> tuple[float, float]:
    """Return the speedup's interval, widened by the noise; without an interval any speedup is possible."""
    return scaled.beyond_noise or (0.0, math.inf)


class ThreadsSpeedUpSamplingAlone(Claim):
    """Checks MAP Fig. 12: more threads shorten the prefix sum index of a batch, but not its priority update.

    MAP calls the update's improvement "almost negligible or negatively affected" (VII-C). Speedups up to `NEGLIGIBLE`
    are no gain; that updates do not gain is shown only if their intervals exclude larger ones. Trees of another K than
    MAP's decide nothing: how often updates meet depends on it.
    """

    key, place, position = "MAP-F12-threads", "VII-C, Fig. 12", 16
    statement = "CPU threads speed up sampling and do not speed up priority updates"
    needs = NEEDS
    measured_by = (experiment_cells("MAP-F12-threads", measured),)

    def judge(self, frame: pd.DataFrame) -> Finding:
        fanout = _timed_fanout(frame)
        finds, updates = _scaling(frame, FIND, fanout), _scaling(frame, UPDATE, fanout)
        if not finds or not updates:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        ours = tuple(each.judged for each in (*finds, *updates))
        gained, sped_up = (sum(map(_gains, some)) for some in (finds, updates))
        explanation = (
            f"With {max(THREADS)} threads finds are more than {NEGLIGIBLE:g} times as fast at {gained} of {len(finds)} "
            f"batch sizes and updates at {sped_up} of {len(updates)}, beyond the noise, with MAP's own algorithms: "
            f"finds only read, updates add to every level with atomics."
        )
        if fanout != FANOUT:
            explanation += (
                f" These trees have {'another K' if fanout is None else f'K = {fanout}'}, MAP's K = {FANOUT} (VII-A): "
                "on theirs an update adds to more levels and meets others more often."
            )
            decides = f"the same on trees of MAP's K = {FANOUT} (`placerl reproduce --only MAP-F12-threads`)"
            return Finding(Outcome.NO_VERDICT, ours, explanation, decides=decides)
        if sped_up or any(map(_loses, finds)):
            return Finding(Outcome.NOT_REPRODUCED, ours, explanation)
        no_speedup = all(_bounds(each)[1] < NEGLIGIBLE for each in updates)
        shown = gained == len(finds) and no_speedup
        return Finding(Outcome.IN_KIND if shown else Outcome.NO_VERDICT, ours, explanation)
