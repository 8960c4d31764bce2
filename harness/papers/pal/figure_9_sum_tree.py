"""The native sum tree over fanouts, buffer sizes and alignments of its nodes (PAL VI-D, Fig. 9; VI-H).

Every configuration is measured next to a second one that is identical, its A/A null: what claims compare, they compare
beyond the difference between these two.
"""

from dataclasses import asdict
from functools import partial

import numpy as np
import numpy.typing as npt

from harness.core.progress import Report
from harness.core.row import Measurement
from harness.measure.protocol import Case, Protocol, measure
from harness.papers.cells import Tier, claim_cell
from harness.papers.tree_layouts import TreeLayout, check, priorities
from harness.store.cell import Cell
from primitives.sum_tree import SumTree

PRIMITIVE = "sum_tree.sample_and_update"
BATCH_SIZE = 64
CAPACITIES = (1_000, 10_000, 100_000)  # PAL VI-D
FANOUTS = (2, 4, 8, 16, 32, 64, 128, 256)
LAYOUT_CAPACITY = 1_000_000  # PAL VI-H
LAYOUT_FANOUT = 16
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


def cells(tier: Tier) -> list[Cell]:
    """The fanouts (PAL-F9), and the layouts of the tree of a million leaves (PAL-VI-H-layout)."""
    return [
        claim_cell("PAL-F9", tier.experiment_s, partial(fanout, tier.experiment_s)),
        claim_cell("PAL-VI-H-layout", tier.experiment_s, partial(layout, tier.experiment_s)),
    ]
