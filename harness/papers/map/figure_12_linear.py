"""Checks how the FPGA's replay operations grow with the batch as MAP scales it (MAP VI-A2, VII-C, Fig. 12).

MAP sets S, the number of sub-trees with a pipeline each, in proportion to the batch, and Table VI has S from 1 to 32.
Above a batch size of 1024 the pipelines reach what a die holds, and the time is linear: S here is B / 32, at most 32.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low
from typing import Any

import numpy as np
import pandas as pd

from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers import charts
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.cells import experiment_cells
from placerl.harness.papers.charts import Panel, Panels
from placerl.harness.papers.evidence import number, rows_of
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.papers.number import Number, from_text, integers, merge_rows, ratio
from placerl.primitives import sum_tree
from placerl.primitives.fpga.explore.map_replay import MOST_BANKS
from placerl.primitives.sum_tree import fpga_backend
from placerl.primitives.sum_tree.levels import levels_of


@dataclass(frozen=True)
class ScaledReplay(Columns):
    """Columns of the rows: what a batch does ("sample" or "update"), children of a node K, and sub-trees S."""

    call: str
    fanout: int
    banks: int


EXPERIMENT = Experiment(
    "MAP-F12-linear",
    "cycles of the FPGA's replay with S in proportion to the batch",
    "cycles",
    ScaledReplay,
    of_machine=False,
)
TIERS = ("standard", "full")
NEEDS = "the experiment MAP-F12-linear: cycles of the simulated replay (claim/MAP-F12-linear, tier standard)"
CALLS = {"sample": "prefix sum index", "update": "priority update"}
OWN_FANOUT = 16
BATCH_SIZES = (32, 128, 512, 1024, 2048, 4096, 8192, 16384)
LEAVES_IN_USE = 16_384
"""A leaf in use does not change the cycles; the levels are those of MAP's million (IV-C4)."""
DRAWS = 9
"""Batches of each kind, of which the median is stored: how long requests wait depends on their sub-trees."""
LINEAR = 0.1
"""Largest relative difference from proportional growth at which a time counts as linear in the batch size."""
STRAIGHT = 0.8
"""Least ratio of the flattest to the steepest growth per item at which a time is not clearly curved."""


def banks_of(batch_size: int, limit: int) -> int:
    """Return S for a batch size: in proportion to it up to a limit, where S is the most of MAP Table VI."""
    return max(1, min(MOST_BANKS, batch_size * MOST_BANKS // limit))


def counted(fanout: int, batch_size: int) -> Iterator[Row]:
    """Yield the cycles of a batch of samples and of one of updates, with the sub-trees of the batch size.

    Args:
        fanout: K, children of a node, which a level reads in one cycle.
    """
    from placerl.primitives.fpga.cycles.difference_table import replay_difference

    (leaves, limit) = integers("MAP.replay_capacity", "MAP.fpga_replay_linear_above")
    banks = banks_of(batch_size, limit)
    options: dict[str, Any] = {"levels": levels_of(-(-leaves // banks), fanout), "banks": banks}
    tree: Any = sum_tree.create(LEAVES_IN_USE, backend="fpga", fanout=fanout, contents="software", **options)
    tree.update(np.arange(LEAVES_IN_USE), np.ones(LEAVES_IN_USE))
    rng = np.random.default_rng(0)
    cycles: dict[str, list[int]] = {call: [] for call in CALLS}
    for _ in range(DRAWS):
        for call, drawn in cycles.items():
            drawn.append(replay_difference(tree, "wide", call, batch_size, rng).simulated_cycles)
    for call, drawn in cycles.items():
        yield EXPERIMENT.row(
            ScaledReplay(call, fanout, banks),
            primitive="replay manager",
            backend="fpga",
            device="fpga",
            batch_size=batch_size,
            quantity="cycles",
            provenance=Provenance.SIMULATED,
            value=median_low(drawn),
        )


def simulated(report: Report) -> Sequence[Row]:
    """Count the cycles for MAP's K and this project's; one row that was not run without the hardware's description."""
    if missing := fpga_backend.unavailable_reason():
        fields = {"primitive": "replay manager", "backend": "fpga", "device": "fpga", "quantity": "cycles"}
        return [EXPERIMENT.not_run(f"needs {missing}", provenance=Provenance.SIMULATED, **fields)]
    sizes = [(fanout, size) for fanout in (*integers("MAP.fanout"), OWN_FANOUT) for size in BATCH_SIZES]
    rows: list[Row] = []
    for done, (fanout, size) in enumerate(sizes):
        report(done, len(sizes), f"replay, K = {fanout}, batch size {size}")
        rows += counted(fanout, size)
    return rows


def _share_of_growth(design: str, low: int, high: int, by_size: dict[int, Number]) -> Number:
    """Return the ratio of cycles at two batch sizes divided by the ratio of the batch sizes."""
    grown = ratio("grown", by_size[high], by_size[low])
    name = f"{design}: cycles grown from batch size {low} to {high}, over the batch's growth"
    return Number(name, grown.value / (high / low), "1", grown.provenance, grown.source, rows=grown.rows)


def _straightness(design: str, by_size: dict[int, Number]) -> Number:
    """Return the flattest growth per item between neighbouring batch sizes over the steepest: 1 for a straight line.

    It is 0 if the cycles grow nowhere.
    """
    steps = [(by_size[b].value - by_size[a].value) / (b - a) for a, b in pairwise(sorted(by_size))]
    return Number(
        f"{design}: flattest growth per item over the steepest, above",
        min(steps) / max(steps) if max(steps) > 0 else 0.0,
        "ratio",
        Provenance.SIMULATED,
        rows=merge_rows(by_size.values()),
    )


cells = experiment_cells("MAP-F12-linear", simulated, TIERS, 5.0, Provenance.SIMULATED)


class FpgaTimesAreLinear(Claim):
    """Checks MAP VII-C: the time of the FPGA's replay operations is linear in large batch sizes, and grows less below.

    Below the batch size that MAP states, the cycles of both operations have to grow less than in proportion, with S in
    proportion to the batch; above it, with the largest S, in proportion, or by the same per item. K is MAP's; the
    cycles with this project's K are listed. S reaches its largest at the stated size because it is set so, which is why
    agreement is in kind.
    """

    key, place, position = "MAP-F12-linear", "VII-C, Fig. 12", 14
    statement = (
        "On the FPGA the time of replay operations is linear in the batch above a size, and grows less below"
    )
    published = from_text("MAP.fpga_replay_linear_above")
    needs = NEEDS
    measured_by = (cells,)

    def judge(self, frame: pd.DataFrame) -> Finding:
        limit = int(self.published[0].value)
        fanout, *_ = integers("MAP.fanout")
        by_design = _cycles(frame)
        below: dict[int, list[Number]] = {}
        above: dict[int, list[Number]] = {}
        straight: dict[int, list[Number]] = {}
        for (call, children), by_size in by_design.items():
            small, large = ({n: c for n, c in by_size.items() if (n > limit) is big} for big in (False, True))
            if len(small) < 2 or len(large) < 3:
                return Finding(Outcome.NOT_RUN, needs=NEEDS)
            design = f"{CALLS[call]}, K = {children}"
            below.setdefault(children, []).append(_share_of_growth(design, min(small), max(small), by_size))
            above.setdefault(children, []).append(_share_of_growth(design, min(large), max(large), by_size))
            straight.setdefault(children, []).append(_straightness(design, large))
        if len(below.get(fanout, ())) < len(CALLS):
            return Finding(Outcome.NOT_RUN, needs=NEEDS)
        ours = tuple(n for part in (below, above, straight) for some in part.values() for n in some)
        linear = all(abs(n.value - 1) <= LINEAR for n in above[fanout]) or all(
            n.value >= STRAIGHT for n in straight[fanout]
        )
        less = all(n.value < 1 - LINEAR for n in below[fanout])
        said = (
            f"1 is growth in proportion, within {LINEAR:.0%}. S grows with the batch up to {MOST_BANKS} at {limit}. "
            f"Judged with MAP's K = {fanout}."
        )
        return Finding(Outcome.IN_KIND if linear and less else Outcome.NOT_REPRODUCED, ours, said)

    def panels(self, frame: pd.DataFrame) -> Panels:
        lines = [
            charts.line(f"{CALLS[call]}, K = {fanout}", sorted(by_size.items()))
            for (call, fanout), by_size in _cycles(frame).items()
        ]
        title, turn = "S in proportion to the batch size", self.published[0].value
        linear = [("linear above (published)", turn)]
        return [Panel("batch size", "cycles", lines, title, log_x=True, log_y=True, published_x=linear)]


def _cycles(frame: pd.DataFrame) -> dict[tuple[str, int], dict[int, Number]]:
    """Return the cycles of each operation and K by batch size."""
    found: dict[tuple[str, int], dict[int, Number]] = {}
    for row in rows_of(frame, EXPERIMENT, "cycles"):
        design, size = (row.parameters.call, row.parameters.fanout), int(row.batch_size)
        title = f"{CALLS[design[0]]}, K = {design[1]}, S = {row.parameters.banks}, batch size {size}"
        found.setdefault(design, {})[size] = number(row, title)
    return found
