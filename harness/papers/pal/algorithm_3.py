"""Measures how threads scale on one sum tree with the locks of PAL's Algorithm 3, against PAL's Fig. 9.

Algorithm 3 holds the global tree lock throughout sampling and throughout a priority update. Fig. 9 has 4 threads do
nothing but these two, and reports linear scaling. Both cannot be true, because only one thread at a time holds the
lock. The experiment times the order of locks as printed and one in which sampling holds no lock, on the same tree
(`native/lock_orders.hpp`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.measure import statistics
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.measure.turns import Rounds, in_rounds
from placerl.harness.papers.base import Claim, Finding, Outcome, decided
from placerl.harness.papers.cells import experiment_cells
from placerl.harness.papers.evidence import Paired, paired, rows_of
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.papers.number import from_text

PRIMITIVE = "sum_tree.sample_and_update"
PRINTED, UNLOCKED = ORDERS = ("printed", "unlocked sampling")
TIERS = ("standard", "full")
THREADS = (1, 2, 4)
BATCH_SIZE = 64
CAPACITY = 100_000
FANOUT = 64  # PAL VI-D, for that buffer
LINEAR = 0.8
"""Threads on n cores scale linearly if they reach at least this share of n times one thread's rate."""
NEEDS_CORES = "2 cores or more: threads that share a core scale neither way"


@dataclass(frozen=True)
class OrderedSide(Columns):
    """One configuration that is timed, threads that sample and update one sum tree under locks, and its row's columns.

    Attributes:
        order: order of the locks: "printed" (as in PAL's Algorithm 3) or "unlocked sampling".
        null: whether it is the second, identical copy of a configuration, which shows the noise (the A/A null).
        cores: cores that this process may use.
        calls, seed: times that a thread samples and updates in a turn, and the seed of turns and samples.
    """

    order: str
    threads: int
    null: bool = False
    cores: int = 0
    capacity: int = CAPACITY
    fanout: int = FANOUT
    calls: int = 0
    seed: int = 0


EXPERIMENT = Experiment(
    "lock order", "threads on one sum tree, by the order of its locks", "time_per_call", OrderedSide
)


def sides() -> list[OrderedSide]:
    """Return the configurations to time: two orders of locks with each number of threads.

    Each configuration occurs twice; the second copy shows the noise.
    """
    return [OrderedSide(order, n, null) for order in ORDERS for n in THREADS for null in (False, True)]


def measure(report: Report, rounds: int = statistics.PAIRS, calls: int = 0, seed: int = 0) -> Sequence[Row]:
    """Time threads on one sum tree with two orders of locks and each number of threads, in interleaved turns.

    Args:
        calls: times that a thread samples and updates in a turn; 0 for PAL's own number.

    Returns:
        One measurement per configuration: the wall-clock seconds of a turn divided by how often all threads together
        sampled and updated.
    """
    from placerl.harness._experiments import LockOrders

    (published,) = from_text("PAL.operations")
    calls = calls or int(published.value)
    trees: dict[tuple[str, bool], Any] = {
        (order, null): LockOrders(order, CAPACITY, FANOUT) for order in ORDERS for null in (False, True)
    }
    draws = np.random.default_rng(seed)

    def turn(side: OrderedSide) -> float:
        tree = trees[side.order, side.null]
        return float(
            tree.run(side.threads, BATCH_SIZE, calls, int(draws.integers(2**32))) / (calls * side.threads)
        )

    timed = in_rounds(
        {side: partial(turn, side) for side in sides()}, Rounds(rounds, warm_up=1, seed=seed), report=report
    )
    return [
        EXPERIMENT.summary(
            samples_s,
            replace(side, cores=len(usable_cores()), calls=calls, seed=seed),
            primitive=PRIMITIVE,
            backend="scalar",
            device="cpu",
            batch_size=BATCH_SIZE,
            quantity="time_per_call",
        )
        for side, samples_s in timed.items()
    ]


class PrintedLocksScale(Claim):
    """Checks PAL's Algorithm 3 against PAL's Fig. 9: with the printed locks, sampling and updating scale with threads.

    The rate has to grow linearly with the number of threads, up to PAL's 4 threads, as far as each has a core.
    """

    key, place, position = "PAL-A3", "IV-D1, Algorithm 3; VI-D, Fig. 9", 5
    statement = "Threads that sample and update scale linearly while sampling holds the global tree lock"
    published = from_text("PAL.threads")
    needs = "the experiment PAL-A3: threads on one sum tree with sampling under the global lock and without"
    measured_by = (experiment_cells("PAL-A3", measure, TIERS, estimate_s=30.0),)

    def judge(self, frame: pd.DataFrame) -> Finding:
        (published,) = self.published
        rows = {
            (row.parameters.order, row.parameters.threads, row.parameters.null): row
            for row in rows_of(frame, EXPERIMENT, "time_per_call")
        }
        cores = min((row.parameters.cores for row in rows.values()), default=0)
        most = max((count for count in THREADS if count <= min(cores, published.value)), default=0)
        if cores == 1:
            return Finding(Outcome.NOT_RUN, needs=NEEDS_CORES)
        if any(
            (order, count, null) not in rows
            for order in ORDERS
            for count in (1, most)
            for null in (False, True)
        ):
            return Finding(Outcome.NOT_RUN, needs=self.needs)

        def over_one(order: str) -> Paired:
            many, null, one = rows[order, most, False], rows[order, most, True], rows[order, 1, False]
            return paired(f"{most} threads over 1, {order}", many, null, one, at_most=most)

        printed, unlocked = over_one(PRINTED), over_one(UNLOCKED)
        linear = LINEAR * most
        explanation = (
            f"Linear would be at least {linear:.3g} times one thread's rate for {most} threads, each on a core of its "
            f"own (PAL has {published.value:g}). As printed, sampling and updating hold the global tree lock from "
            "start to end; the second number is without a lock around sampling."
        )
        ours = (printed.gain, unlocked.gain)
        if printed.beyond_noise is None:
            return Finding(Outcome.NO_VERDICT, ours, explanation)
        low, high = printed.beyond_noise
        return Finding(decided(low > linear, high < linear), ours, explanation)
