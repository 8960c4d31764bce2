"""Times the cache-aligned layout of the sum tree's nodes (PAL VI-H)."""

from collections.abc import Sequence

import pandas as pd

from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.cells import experiment_cells
from placerl.harness.papers.experiments import Experiment
from placerl.harness.papers.number import Number, from_text
from placerl.harness.papers.pal.figure_9_tree import TimedTree, measure_trees, speedup, trees_of
from placerl.harness.papers.tree_layouts import TreeLayout

LAYOUTS_COMPARED = Experiment(
    "layout", "PAL's sum tree with and without alignment", "time_per_call", TimedTree
)
LAYOUT_CAPACITY = 1_000_000  # PAL VI-H
LAYOUT_FANOUT = 16
SMALL_GAIN_PERCENT = 5.0


def layout(budget_s: float, report: Report) -> Sequence[Row]:
    """Time PAL's sum tree of a million leaves with and without aligned node groups."""
    trees = [TreeLayout(LAYOUT_CAPACITY, LAYOUT_FANOUT, aligned) for aligned in (True, False)]
    return measure_trees(trees, LAYOUTS_COMPARED, budget_s, report)


class AlignedLayoutGainsLittle(Claim):
    """Checks PAL VI-H: node groups that start on cache lines gain little, for a tree of a million leaves.

    The time may change by at most 5% (`SMALL_GAIN_PERCENT`) in either direction: a large loss is no small gain.
    """

    key, place, position = "PAL-VI-H-layout", "VI-H", 12
    statement = "The cache-aligned layout gains little with a million priorities"
    published = from_text("PAL.aligned_layout_gain")
    needs = "the experiment PAL-VI-H-layout: the tree with and without alignment"
    measured_by = (experiment_cells("PAL-VI-H-layout", layout),)
    decides = "more rounds on a quiet machine (`placerl reproduce --only PAL-VI-H-layout`)"

    def judge(self, frame: pd.DataFrame) -> Finding:
        trees = trees_of(frame, LAYOUTS_COMPARED)
        pairs = [
            (tree, trees[n, k, False])
            for (n, k, aligned), tree in trees.items()
            if aligned and (n, k, False) in trees
        ]
        if not pairs:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        (aligned, without), *_ = pairs
        over = speedup("time without alignment over time with it", aligned, without)
        percent = 100 * (over.gain.value - 1)
        name, source = "gain of alignment", over.gain.source
        if over.beyond_noise is None:
            gain = Number(name, percent, "%", over.gain.provenance, source, rows=over.gain.rows)
            return Finding(Outcome.NO_VERDICT, (gain,), "Too few pairs of samples.")
        low, high = (100 * (bound - 1) for bound in over.beyond_noise)
        gain = Number(name, percent, "%", over.gain.provenance, source, low, high, over.gain.rows)
        small = f"{SMALL_GAIN_PERCENT:g}%"
        if low > -SMALL_GAIN_PERCENT and high < SMALL_GAIN_PERCENT:
            said = f"The whole interval is within {small} of none: a small gain, or none."
            return Finding(Outcome.IN_KIND, (gain,), said)
        if low > SMALL_GAIN_PERCENT or high < -SMALL_GAIN_PERCENT:
            where = f"above {small}" if low > 0 else f"below -{small}, a loss"
            return Finding(Outcome.NOT_REPRODUCED, (gain,), f"The whole interval is {where}: no small gain.")
        said = f"The interval holds {small} or -{small}, the largest change called small here."
        return Finding(Outcome.NO_VERDICT, (gain,), said)
