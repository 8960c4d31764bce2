"""Times PAL's own sum tree over fanouts and buffer sizes (PAL VI-D, Fig. 9).

All fanouts run the same scalar code (`harness.papers.pal.scalar_tree`). Every configuration is timed together with a
second, identical copy, its A/A null. A claim uses only differences larger than the difference between these two.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.measure.protocol import Case, Protocol, measure
from placerl.harness.measure.statistics import FEWEST_PAIRS, lower_quartile
from placerl.harness.papers import charts
from placerl.harness.papers.base import Claim, Finding, Outcome, decided
from placerl.harness.papers.cells import experiment_cells
from placerl.harness.papers.charts import Panel, Panels
from placerl.harness.papers.evidence import Paired, number, paired, rows_of
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.papers.number import Number, from_text
from placerl.harness.papers.pal.scalar_tree import ScalarSumTree
from placerl.harness.papers.tree_layouts import TreeLayout, check, priorities


@dataclass(frozen=True)
class TimedTree(TreeLayout, Columns):
    """Columns of a tree's rows: its configuration, and whether it is the copy that shows the noise."""

    null: bool = False
    threads: int = 1


FANOUTS_COMPARED = Experiment(
    "fanout", "PAL's sum tree over fanouts and buffer sizes", "time_per_call", TimedTree
)
PRIMITIVE = "sum_tree.sample_and_update"
BATCH_SIZE = 64
CAPACITIES = (1_000, 10_000, 100_000)  # PAL VI-D
FANOUTS = (2, 4, 8, 16, 32, 64, 128, 256)
FANOUT = 16  # of float32, which fill a cache line


def _name(tree: TreeLayout) -> str:
    return f"{tree.capacity} leaves, K={tree.fanout}{'' if tree.aligned else ', not aligned'}"


def case(layout: TreeLayout, name: str) -> Case[ScalarSumTree]:
    """Return the case (what the timing protocol sets up, checks and calls) of a sum tree.

    A call samples a batch and then updates as many priorities, as PAL's threads do in turn.
    """

    def make() -> ScalarSumTree:
        tree = ScalarSumTree(layout.capacity, layout.fanout, layout.aligned)
        tree.update(np.arange(layout.capacity), priorities(np.random.default_rng(0), layout.capacity))
        return tree

    def inputs(tree: ScalarSumTree, rng: np.random.Generator) -> tuple[npt.NDArray, ...]:
        updated = priorities(rng, BATCH_SIZE).astype(np.float64)
        return rng.random(BATCH_SIZE), rng.integers(0, tree.capacity, BATCH_SIZE), updated

    return Case(name, make, check, inputs, lambda tree, arguments: tree.sample_and_update(*arguments))


def measure_trees(
    trees: list[TreeLayout], experiment: Experiment, budget_s: float, report: Report
) -> Sequence[Row]:
    """Time sampling and updating of each of several sum trees, all in the same interleaved rounds.

    Each tree is timed twice: its second, identical copy shows the noise (the A/A null).
    """
    measured = [
        (tree, is_null, case(tree, f"{_name(tree)}{' (null)' if is_null else ''}"))
        for tree in trees
        for is_null in (False, True)
    ]
    timings = measure(
        [timed for _, _, timed in measured],
        Protocol(budget_s=budget_s, warm_up_s=5e-3, threads=TimedTree.threads),
        progress=lambda done, total: report(done, total, experiment),
    )
    return [
        experiment.timing(
            timings[timed.name],
            TimedTree(**asdict(tree), null=is_null),
            primitive=PRIMITIVE,
            backend=ScalarSumTree.backend,
            device="cpu",
            batch_size=BATCH_SIZE,
        )
        for tree, is_null, timed in measured
    ]


def fanout(budget_s: float, report: Report) -> Sequence[Row]:
    """Time sampling and updating of PAL's sum tree with several fanouts and buffer sizes."""
    trees = [TreeLayout(capacity, k) for capacity in CAPACITIES for k in FANOUTS]
    return measure_trees(trees, FANOUTS_COMPARED, budget_s, report)


class MeasuredTree(NamedTuple):
    """Two stored measurements of one configuration of a sum tree, as named tuples.

    Attributes:
        row: the configuration's own measurement.
        null: the measurement of its second, identical copy, which shows the noise (the A/A null).
    """

    row: Any
    null: Any


Trees = dict[tuple[int, int, bool], MeasuredTree]


def trees_of(frame: pd.DataFrame, experiment: Experiment) -> Trees:
    """Return the stored measurements of a sum tree experiment.

    Returns:
        The measurements of each tree and its copy, by (capacity, fanout, whether node groups are aligned).
    """
    by_place: dict[tuple[int, int, bool], dict[bool, Any]] = {}
    for row in rows_of(frame, experiment, "time_per_call", backend=ScalarSumTree.backend):
        place = (
            row.parameters.capacity,
            row.parameters.fanout,
            row.parameters.aligned,
        )
        by_place.setdefault(place, {})[row.parameters.null] = row
    return {
        place: MeasuredTree(rows[False], rows[True]) for place, rows in by_place.items() if len(rows) == 2
    }


def speedup(quantity: str, ours: MeasuredTree, theirs: MeasuredTree) -> Paired:
    """Return the speedup of one tree over another, with its interval and verdict."""
    return paired(quantity, ours.row, ours.null, theirs.row)


def _possibly_best(trees: Trees, capacity: int, best: int) -> set[int]:
    """Return the fanouts whose times do not differ, beyond the noise, from the smallest time."""
    mine = {k: tree for (n, k, _), tree in trees.items() if n == capacity}
    over = {k: speedup(f"K={best} over K={k}", mine[best], tree) for k, tree in mine.items() if k != best}
    return {best} | {k for k, faster in over.items() if faster.outcome.verdict != "faster"}


class _OverFanouts(Claim):
    """What the claims on the tree's fanout share."""

    needs = "the experiment PAL-F9: PAL's sum tree over fanouts and buffer sizes"
    measured_by = (experiment_cells("PAL-F9", fanout),)

    def panels(self, frame: pd.DataFrame) -> Panels:
        trees = trees_of(frame, FANOUTS_COMPARED)
        best = from_text("PAL.best_fanout_1k", "PAL.best_fanout_10k", "PAL.best_fanout_100k")
        lines = []
        for capacity in CAPACITIES:
            rows = sorted(
                (k, tree.row) for (n, k, aligned), tree in trees.items() if n == capacity and aligned
            )
            points = [(k, number(row, f"buffer of {capacity:,}, K={k}")) for k, row in rows]
            lines.append(charts.line(f"buffer of {capacity:,}", points))
        return [
            Panel(
                "fanout K",
                "sample and update (s)",
                lines,
                log_x=True,
                log_y=True,
                published_x=[
                    (f"best for {n:,} (published)", k.value) for n, k in zip(CAPACITIES, best, strict=True)
                ],
            )
        ]


class WideTreeIsFaster(_OverFanouts):
    """Checks PAL Fig. 9: the K-ary tree is faster than a binary one at sampling and updating in turn."""

    key, place, position = "PAL-F9", "VI-D, Fig. 9", 3
    statement = "The K-ary sum tree is faster than a binary one"
    published = from_text(
        "PAL.tree_speedup_low",
        "PAL.repository_speedup_1k",
        "PAL.repository_speedup_10k",
        "PAL.repository_speedup_100k",
    )

    def judge(self, frame: pd.DataFrame) -> Finding:
        trees = trees_of(frame, FANOUTS_COMPARED)
        speedups = [
            speedup(f"buffer of {capacity:,}: K={FANOUT} over K=2", tree, trees[capacity, 2, True])
            for (capacity, fanout, _), tree in trees.items()
            if fanout == FANOUT and (capacity, 2, True) in trees
        ]
        if not speedups:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        gains = tuple(comparison.gain for comparison in speedups)
        faster, slower = (sum(c.outcome.verdict == word for c in speedups) for word in ("faster", "slower"))
        explanation = (
            f"Faster at {faster} of {len(gains)} buffer sizes, slower at {slower}. One thread, against the same tree "
            "with K=2: the paper's factor also holds what its locks bring to 4 threads."
        )
        return Finding(decided(faster == len(gains), slower), gains, explanation)


class BestFanoutFalls(_OverFanouts):
    """Checks PAL VI-D: the fanout of the fastest sum tree falls as the buffer grows."""

    key, place, position = "PAL-F9-fanout", "VI-D", 6
    statement = "The best fanout falls as the replay buffer grows"
    published = from_text(
        "PAL.best_fanout_1k",
        "PAL.best_fanout_10k",
        "PAL.best_fanout_100k",
        "PAL.repository_best_fanout_1k",
        "PAL.repository_best_fanout_10k",
        "PAL.repository_best_fanout_100k",
    )

    def judge(self, frame: pd.DataFrame) -> Finding:
        trees = trees_of(frame, FANOUTS_COMPARED)
        published = from_text("PAL.best_fanout_1k", "PAL.best_fanout_10k", "PAL.best_fanout_100k")
        best: list[int] = []
        ours: list[Number] = []
        pairs = FEWEST_PAIRS
        for capacity in CAPACITIES:
            rows = {k: tree.row for (n, k, _), tree in trees.items() if n == capacity}
            if len(rows) < 5:
                return Finding(Outcome.NOT_RUN, needs=self.needs)
            pairs = min(pairs, *(len(row.samples) for row in rows.values()))
            best.append(min(rows, key=lambda k: lower_quartile(rows[k].samples)))
            name = f"best fanout, buffer of {capacity:,}"
            source = "smallest lower quartile of the time"
            labels = tuple(sorted(int(row.Index) for row in rows.values()))
            ours.append(Number(name, best[-1], "count", Provenance.MEASURED, source, rows=labels))
        if pairs < FEWEST_PAIRS:
            return Finding(
                Outcome.NO_VERDICT, tuple(ours), f"Only {pairs} rounds, where {FEWEST_PAIRS} are the fewest."
            )
        perhaps = [_possibly_best(trees, capacity, k) for capacity, k in zip(CAPACITIES, best, strict=True)]
        said = "; ".join(
            f"buffer of {capacity:,}: {', '.join(map(str, sorted(some)))}"
            for capacity, some in zip(CAPACITIES, perhaps, strict=True)
        )
        small, middle, large = perhaps
        if perhaps == [{n.value} for n in published]:
            outcome = Outcome.REPRODUCED
        elif max(small) <= min(large) or max(small) < min(middle) or max(middle) < min(large):
            outcome = Outcome.NOT_REPRODUCED
        elif min(small) > max(large) and max(small) >= max(middle) and min(middle) >= min(large):
            outcome = Outcome.IN_KIND
        else:
            outcome = Outcome.NO_VERDICT
        said = f"The best, and what is not told apart from it: {said}."
        if outcome is Outcome.NOT_REPRODUCED:
            said = f"The best fanout does not fall as the buffer grows. {said}"
        return Finding(outcome, tuple(ours), said)


class CostHasMinimumOverFanouts(_OverFanouts):
    """Checks PAL IV-C5 and VI-D: the sum tree is fastest at a fanout K between the smallest and the largest one."""

    key, place, position = "PAL-F9-minimum", "IV-C5; VI-D", 7
    statement = "The cost of sampling and updating has a minimum over K"

    def judge(self, frame: pd.DataFrame) -> Finding:
        trees = trees_of(frame, FANOUTS_COMPARED)
        inside, at_an_end, ours = 0, 0, []
        for capacity in CAPACITIES:
            mine = {k: tree for (n, k, _), tree in trees.items() if n == capacity}
            if len(mine) < 5:
                return Finding(Outcome.NOT_RUN, needs=self.needs)
            best = min(mine, key=lambda k: lower_quartile(mine[k].row.samples))
            ends = [k for k in (min(mine), max(mine)) if k != best]
            over = [
                speedup(f"buffer of {capacity:,}: K={best} over K={k}", mine[best], mine[k]) for k in ends
            ]
            ours += [comparison.gain for comparison in over]
            known = all(comparison.outcome.verdict == "faster" for comparison in over)
            inside += known and len(ends) == 2
            at_an_end += len(ends) == 1 and _possibly_best(trees, capacity, best) == {best}
        explanation = (
            f"The least time is between the smallest and the largest K, and both are slower, at {inside} of "
            f"{len(CAPACITIES)} buffer sizes; at {at_an_end} the smallest or the largest K is the fastest."
        )
        if at_an_end:
            return Finding(Outcome.NOT_REPRODUCED, tuple(ours), explanation)
        return Finding(
            Outcome.IN_KIND if inside == len(CAPACITIES) else Outcome.NO_VERDICT, tuple(ours), explanation
        )
