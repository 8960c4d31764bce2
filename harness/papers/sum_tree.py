"""What claims need measured beyond the profile of a workload, as rows of suite "claim".

Every configuration is measured beside a second one that is identical, its A/A null: what claims compare, they compare
beyond the difference between these two.

Each experiment is a function from a time budget to rows; `EXPERIMENTS` names them by the claims that read them.
"""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial

import numpy as np
import numpy.typing as npt

from harness.core.progress import Report
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.measure import statistics
from harness.measure.protocol import Case, Protocol, measure
from harness.papers.map import tree_threads
from harness.papers.pal import locks as threaded_replay
from harness.papers.pal.layouts import TreeLayout, check, priorities
from primitives.sum_tree import SumTree

PRIMITIVE = "sum_tree.sample_and_update"
BATCH_SIZE = 64
CAPACITIES = (1_000, 10_000, 100_000)  # PAL VI-D
FANOUTS = (2, 4, 8, 16, 32, 64, 128, 256)
LAYOUT_CAPACITY = 1_000_000  # PAL VI-H
LAYOUT_FANOUT = 16
LOCKS_BATCH_SIZES = (64, 1024)
THREADS = 1


def _name(tree: TreeLayout) -> str:
    return f"{tree.capacity} leaves, K={tree.fanout}{'' if tree.aligned else ', not aligned'}"


def case(layout: TreeLayout, name: str) -> Case[SumTree]:
    """Sampling a batch and updating as many priorities, as PAL's threads do in turn."""

    def call(tree: SumTree, arguments: tuple[np.random.Generator, npt.NDArray, npt.NDArray]) -> None:
        rng, indices, updated = arguments
        tree.sample(BATCH_SIZE, rng)
        tree.update(indices, updated)

    return Case(
        name,
        layout.make,
        check,
        lambda tree, rng: (rng, rng.integers(0, tree.capacity, BATCH_SIZE), priorities(rng, BATCH_SIZE)),
        call,
    )


def _measure(trees: list[TreeLayout], experiment: str, budget_s: float, report: Report) -> list[Measurement]:
    measured = [
        (tree, is_null, case(tree, f"{_name(tree)}{' (null)' if is_null else ''}"))
        for tree in trees
        for is_null in (False, True)
    ]
    timings = measure(
        [timed for _, _, timed in measured],
        Protocol(budget_s=budget_s, warm_up_s=5e-3, threads=THREADS),
        progress=lambda done, total: report(done, total, experiment),
    )
    return [
        timings[timed.name].measurement(
            suite="claim",
            primitive=PRIMITIVE,
            backend="native",
            device="cpu",
            batch_size=BATCH_SIZE,
            details={"experiment": experiment, "null": is_null, "threads": THREADS} | asdict(tree),
        )
        for tree, is_null, timed in measured
    ]


def fanout(budget_s: float, report: Report) -> list[Measurement]:
    """The native sum tree over fanouts and buffer sizes, sampling and updates in the same interleaved rounds.

    Args:
        budget_s: begin no further round after this time, seconds.
        report: called with the progress.
    """
    trees = [TreeLayout(capacity, k) for capacity in CAPACITIES for k in FANOUTS]
    return _measure(trees, "fanout", budget_s, report)


def layout(budget_s: float, report: Report) -> list[Measurement]:
    """The native sum tree of a million leaves with and without node groups on cache lines; arguments as `fanout`."""
    trees = [TreeLayout(LAYOUT_CAPACITY, LAYOUT_FANOUT, aligned) for aligned in (True, False)]
    return _measure(trees, "layout", budget_s, report)


def locks(budget_s: float, report: Report) -> list[Measurement]:
    """Threads on one replay with two locks, one lock and an owner thread; arguments as `fanout`."""
    # Threads take their time to meet: a turn is never shortened to make room for more rounds.
    rounds = statistics.PAIRS if budget_s >= 60 else statistics.FEWEST_PAIRS
    return threaded_replay.measure(LOCKS_BATCH_SIZES, rounds, budget_s, report)


def optimal_mappings(budget_s: float, report: Report) -> list[Measurement]:
    """MAP Table V on MAP's own platform: Algorithm 3 on times that are modelled from published numbers.

    Rows `as_printed` are 1 where the mapping is the printed one, else 0, with both and the reason in the details;
    rows `gain` are what the printed mapping gains over another that is printed. Arguments as `fanout`.
    """
    from harness.mapping import absent_platforms as what_if

    row = partial(
        Measurement,
        suite="claim",
        primitive="mapping",
        backend="map-tpds23",
        device="map-tpds23",
        provenance=Provenance.MODELLED,
    )
    rows = []
    for done, cell in enumerate(what_if.map_table_5()):
        report(done, 11, "Table V")
        rows.append(
            row(
                workload=cell.workload,
                batch_size=cell.batch_size,
                quantity="as_printed",
                unit="1",
                value=float(cell.ours == cell.published),
                details={"experiment": "optimal mappings"} | asdict(cell),
            )
        )
    rows += [
        row(
            workload=gain.workload,
            batch_size=gain.batch_size,
            quantity="gain",
            unit="ratio",
            value=gain.gain,
            details={"experiment": "gains over other mappings"} | asdict(gain),
        )
        for gain in what_if.map_table_5_gains()
    ]
    return rows


Experiment = Callable[[float, Report], list[Measurement]]
EXPERIMENTS: dict[str, Experiment] = {
    "PAL-F9": fanout,
    "PAL-VI-H-layout": layout,
    "PAL-F9-locks": locks,
    "MAP-F12-threads": tree_threads.measured,
    "MAP-T5": optimal_mappings,
}
"""Experiments by the first of the claims that need them."""
MODELLED = frozenset({"MAP-T5"})
"""Of those, what no clock is read for."""
