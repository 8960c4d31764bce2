"""Claims of PAL: parallel actors and learners around a K-ary sum tree."""

from typing import Any, NamedTuple

import pandas as pd

from harness.compare import adapters
from harness.compare.registry import RLLIB
from harness.core.provenance import Provenance
from harness.measure.statistics import FEWEST_PAIRS, lower_quartile
from harness.papers.base import Claim, Finding, Outcome
from harness.papers.comparisons import beside
from harness.papers.evidence import Paired, detail, paired, records, select
from harness.papers.number import Number, from_text
from harness.papers.pal import figures_8_10_12_cores
from harness.papers.pal.figures_9_11_replay import (
    NEEDS_ADAPTERS,
    NEEDS_LOCKS,
    order_of_gains,
    plugged_in,
    two_locks,
)

FANOUT = 16  # this project's default
BUFFERS = (1_000, 10_000, 100_000)
SMALL_GAIN_PERCENT = 5.0
NEEDS_LAYOUTS = "the experiment PAL-VI-H-layout: the tree with and without alignment"
NEEDS_FANOUTS = "the experiment PAL-F9: the native sum tree over fanouts and buffer sizes"


class _Tree(NamedTuple):
    """A row of a configuration and of a second one that is identical, its A/A null."""

    row: Any
    null: Any


Trees = dict[tuple[int, int, bool], _Tree]


def _trees(frame: pd.DataFrame, experiment: str) -> Trees:
    """Rows of an experiment with the sum tree, by capacity, fanout and whether node groups are aligned."""
    found: dict[tuple[int, int, bool], dict[bool, Any]] = {}
    for row in records(select(frame, suite="claim", quantity="time_per_call")):
        if detail(row, "experiment") == experiment:
            place = int(detail(row, "capacity")), int(detail(row, "fanout")), bool(detail(row, "aligned"))
            found.setdefault(place, {})[bool(detail(row, "null"))] = row
    return {place: _Tree(rows[False], rows[True]) for place, rows in found.items() if len(rows) == 2}


def _faster(quantity: str, ours: _Tree, theirs: _Tree) -> Paired:
    """How many times as fast a tree is as another."""
    return paired(quantity, ours.row, ours.null, theirs.row)


def k_ary_speed(frame: pd.DataFrame) -> Finding:
    """PAL Fig. 9: the K-ary tree against a binary one, sampling and updating in turn."""
    trees = _trees(frame, "fanout")
    found = [
        _faster(f"buffer of {capacity:,}: K={FANOUT} over K=2", tree, trees[capacity, 2, True])
        for (capacity, fanout, _), tree in trees.items()
        if fanout == FANOUT and (capacity, 2, True) in trees
    ]
    if not found:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_FANOUTS)
    gains = tuple(comparison.gain for comparison in found)
    faster, slower = (sum(c.outcome.verdict == word for c in found) for word in ("faster", "slower"))
    explanation = (
        f"Faster at {faster} of {len(gains)} buffer sizes, slower at {slower}. One thread, against the same tree "
        "with K=2: the paper's factor also holds what its locks bring to 4 threads."
    )
    if faster == len(gains):
        return Finding(Outcome.IN_KIND, gains, explanation)
    return Finding(Outcome.NOT_REPRODUCED if slower else Outcome.NO_VERDICT, gains, explanation)


def best_fanout(frame: pd.DataFrame) -> Finding:
    """PAL VI-D: the best fanout falls as the buffer grows."""
    trees = _trees(frame, "fanout")
    published = from_text("PAL.best_fanout_1k", "PAL.best_fanout_10k", "PAL.best_fanout_100k")
    best: list[int] = []
    ours: list[Number] = []
    pairs = FEWEST_PAIRS
    for capacity in BUFFERS:
        rows = {k: tree.row for (n, k, _), tree in trees.items() if n == capacity}
        if len(rows) < 5:
            return Finding(Outcome.NOT_RUN, needs=NEEDS_FANOUTS)
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
    perhaps = [_possibly_best(trees, capacity, k) for capacity, k in zip(BUFFERS, best, strict=True)]
    said = "; ".join(
        f"buffer of {capacity:,}: {', '.join(map(str, sorted(some)))}"
        for capacity, some in zip(BUFFERS, perhaps, strict=True)
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
    return Finding(outcome, tuple(ours), f"The best, and what is not told apart from it: {said}.")


def _possibly_best(trees: Trees, capacity: int, best: int) -> set[int]:
    """The fanouts that are not told apart, beyond the noise, from that of the smallest time."""
    mine = {k: tree for (n, k, _), tree in trees.items() if n == capacity}
    over = {k: _faster(f"K={best} over K={k}", mine[best], tree) for k, tree in mine.items() if k != best}
    return {best} | {k for k, faster in over.items() if faster.outcome.verdict != "faster"}


def layout_gain(frame: pd.DataFrame) -> Finding:
    """PAL VI-H: how little node groups on cache lines bring to a tree of a million leaves."""
    trees = _trees(frame, "layout")
    pairs = [
        (tree, trees[n, k, False])
        for (n, k, aligned), tree in trees.items()
        if aligned and (n, k, False) in trees
    ]
    if not pairs:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_LAYOUTS)
    (aligned, without), *_ = pairs
    over = _faster("time without alignment over time with it", aligned, without)
    percent = 100 * (over.gain.value - 1)
    name, source = "gain of alignment", over.gain.source
    if over.beyond_noise is None:
        gain = Number(name, percent, "%", over.gain.provenance, source, rows=over.gain.rows)
        return Finding(Outcome.NO_VERDICT, (gain,), "Too few pairs of samples.")
    low, high = (100 * (bound - 1) for bound in over.beyond_noise)
    gain = Number(name, percent, "%", over.gain.provenance, source, low, high, over.gain.rows)
    small = f"{SMALL_GAIN_PERCENT:g}%"
    if high < SMALL_GAIN_PERCENT:
        return Finding(
            Outcome.IN_KIND, (gain,), f"The whole interval is below {small}: a small gain, or none."
        )
    if low > SMALL_GAIN_PERCENT:
        return Finding(
            Outcome.NOT_REPRODUCED, (gain,), f"The whole interval is above {small}: no small gain."
        )
    return Finding(
        Outcome.NO_VERDICT, (gain,), f"The interval holds {small}, the largest gain called small here."
    )


def tree_memory(_: pd.DataFrame) -> Finding:
    """PAL VI-H against PAL IV-C5: the size of the tree over a million priorities."""
    leaves, limit = from_text("PAL.replay_capacity", "PAL.tree_size")
    fanout = 64
    nodes = leaves.value + (leaves.value - 1) / (fanout - 1)
    source = f"N + (N - 1) / (K - 1) nodes of 4 bytes (IV-C5), K = {fanout}"
    size = Number("smallest size of the tree", 4 * nodes / 1000, "KB", Provenance.MODELLED, source)
    if size.value < limit.value:
        return Finding(Outcome.CONSISTENT, (size,), "Counted from the paper's own capacity and node count.")
    explanation = (
        "By the paper's own node count the whole tree of that buffer, which VI-H says is so small, is hundreds of "
        "times larger. No figure or table is about it; a larger fanout saves at most the inner nodes, and leaves of "
        "one byte are 1,000 KB."
    )
    return Finding(Outcome.INCONSISTENT, (size,), explanation)


CLAIMS = (
    Claim(
        "PAL-F8",
        "VI-C, Fig. 8",
        "Faster convergence than RLlib, more so with more cores",
        from_text("PAL.convergence_speedup_low", "PAL.convergence_speedup_high"),
        figures_8_10_12_cores.NEEDS_CONVERGENCE,
        figures_8_10_12_cores.convergence,
        beside(*RLLIB),
    ),
    Claim(
        "PAL-F9",
        "VI-D, Fig. 9",
        "The K-ary sum tree is faster than a binary one",
        from_text("PAL.tree_speedup_low"),
        NEEDS_FANOUTS,
        k_ary_speed,
        ("claim/PAL-F9",),
    ),
    Claim(
        "PAL-F9-locks",
        "VI-D, Fig. 9",
        "Two locks let 4 threads sample and update in parallel; one lock does not",
        from_text("PAL.threads", "PAL.tree_speedup_low"),
        NEEDS_LOCKS,
        two_locks,
        ("claim/PAL-F9-locks",),
    ),
    Claim(
        "PAL-F9-fanout",
        "VI-D",
        "The best fanout falls as the replay buffer grows",
        from_text("PAL.best_fanout_1k", "PAL.best_fanout_10k", "PAL.best_fanout_100k"),
        NEEDS_FANOUTS,
        best_fanout,
        ("claim/PAL-F9",),
    ),
    Claim(
        "PAL-F10",
        "VI-E, Fig. 10",
        "Throughput is linear in the cores, then saturates",
        from_text("PAL.linear_scaling_below", "PAL.saturation_above"),
        figures_8_10_12_cores.NEEDS_CURVES,
        figures_8_10_12_cores.scaling,
        ("claim/PAL-F10",),
    ),
    Claim(
        "PAL-F11",
        "VI-F, Fig. 11",
        "The replay buffer plugged into other libraries speeds them up",
        from_text("PAL.plugin_speedup_low", "PAL.plugin_speedup_high"),
        NEEDS_ADAPTERS,
        plugged_in,
        (adapters.SUITE,),
        commands=("placerl bench adapters", "placerl report"),
    ),
    Claim(
        "PAL-F11-order",
        "VI-F",
        "The gain falls as the algorithm computes more, and is the least in tianshou, whose replay is compiled",
        (),
        NEEDS_ADAPTERS,
        order_of_gains,
        (adapters.SUITE,),
        commands=("placerl bench adapters", "placerl report"),
    ),
    Claim(
        "PAL-F12",
        "VI-G, Fig. 12",
        "Equation 5 finds the split of cores between actors and learners",
        from_text("PAL.update_interval"),
        figures_8_10_12_cores.NEEDS_CURVES,
        figures_8_10_12_cores.split_of_cores,
        ("claim/PAL-F10",),
    ),
    Claim(
        "PAL-VI-H",
        "VI-H",
        "The tree of a million priorities fits the L2 cache",
        from_text("PAL.tree_size"),
        "nothing",
        tree_memory,
    ),
    Claim(
        "PAL-VI-H-layout",
        "VI-H",
        "The cache-aligned layout gains little at that size",
        from_text("PAL.aligned_layout_gain"),
        NEEDS_LAYOUTS,
        layout_gain,
        ("claim/PAL-VI-H-layout",),
    ),
)
