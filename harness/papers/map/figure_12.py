"""Compares prefix sum index and priority update on CPU, GPU and FPGA over the batch size (MAP VII-C, Fig. 12)."""

from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from harness.papers import charts
from harness.papers.base import Finding, Outcome
from harness.papers.clocks import REPLAY, at_both_clocks
from harness.papers.device_order import exact
from harness.papers.device_times import FPGA, GPU, WORDS, fastest, lacking, listed, panel, replay_times, times
from harness.papers.evidence import agrees, detail, records
from harness.papers.number import Number, from_text, ratio

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORKLOAD = "hopper-ddpg"
LINEAR = 0.1
"""Largest relative difference from proportional growth at which a time counts as linear in the batch size."""
CALLS = {"sum_tree.sample": "prefix sum index", "sum_tree.update": "priority update"}


@partial(at_both_clocks, blocks=REPLAY)
def sampling(frame: pd.DataFrame) -> Finding:
    """Check MAP Fig. 12: the FPGA finds prefix sums faster than the GPU at small batches, more slowly at large ones.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    keys = "MAP.prefix_sum_gpu_over_fpga_high", "MAP.prefix_sum_fpga_over_gpu_high"
    return _fpga_over_gpu(frame, "sum_tree.sample", *keys)


@partial(at_both_clocks, blocks=REPLAY)
def update(frame: pd.DataFrame) -> Finding:
    """Check MAP Fig. 12: the FPGA updates priorities faster than the GPU at every batch size.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    keys = "MAP.priority_update_fpga_over_gpu_low", "MAP.priority_update_fpga_over_gpu_high"
    return _fpga_over_gpu(frame, "sum_tree.update", *keys)


def _fpga_over_gpu(frame: pd.DataFrame, primitive: str, low_key: str, high_key: str) -> Finding:
    """Check MAP Fig. 12: the speedup of a replay operation on the FPGA over the GPU.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
        primitive: the operation, such as "sum_tree.update".
        low_key, high_key: names of the ends of the published range, such as "MAP.prefix_sum_fpga_over_gpu_high"
            (`published.text`). A low key that ends in "gpu_over_fpga_high" gives the GPU's speedup over the FPGA, the
            inverse: then the FPGA has to be faster at the smallest batch size and the GPU at the largest.
    """
    rows = replay_times(frame, "hopper-ddpg", primitive)
    found = fastest(rows)
    if needs := lacking(found, GPU, FPGA):
        return Finding(Outcome.NOT_RUN, listed(found), needs=needs)
    gains = [
        ratio(f"batch size {size}: FPGA over GPU", found[GPU][size], exact(found[FPGA][size]))
        for size in sorted(set(found[GPU]) & set(found[FPGA]))
    ]
    if not gains:
        return Finding(Outcome.NOT_RUN, listed(found), needs="one batch size on GPU and FPGA")
    low, high = (n.value for n in from_text(low_key, high_key))
    crosses = low_key.endswith("gpu_over_fpga_high")
    low = 1 / low if crosses else low
    values = [gain.value for gain in gains]
    said = f"From {min(values):.3g} to {max(values):.3g} times as fast over {len(values)} batch sizes."
    if crosses:  # the FPGA is faster at the smallest batch, the GPU at the largest
        if len(gains) < 2:
            return Finding(Outcome.NOT_RUN, tuple(gains), needs="two batch sizes on GPU and FPGA")
        holds = [gains[0].above(1), gains[-1].below(1)]
        refuted = gains[0].below(1) or gains[-1].above(1)
    else:
        holds = [gain.above(1) for gain in gains]
        refuted = any(gain.below(1) for gain in gains)
    if not all(holds):
        return Finding(Outcome.NOT_REPRODUCED if refuted else Outcome.NO_VERDICT, tuple(gains), said)
    least, most = (pick(gains, key=lambda gain: gain.value) for pick in (min, max))
    as_published = agrees(least, low) and agrees(most, high)
    return Finding(Outcome.REPRODUCED if as_published else Outcome.IN_KIND, tuple(gains), said)


def gpu_constant(frame: pd.DataFrame) -> Finding:
    """Check MAP Fig. 12: on the GPU, the prefix sum index takes constant time, and the update grows with the batch.

    From the smallest batch size to the largest, the index may take less than twice as long, and the update has to
    grow by more than twice as much as the index.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    grown = {}
    for primitive in ("sum_tree.sample", "sum_tree.update"):
        found = fastest(times(frame, "hopper-ddpg", primitive)).get(GPU, {})
        if len(found) < 2:
            return Finding(Outcome.NOT_RUN, needs=f"{WORDS[GPU]}, two batch sizes of Hopper's sum tree")
        low, high = min(found), max(found)
        grown[primitive] = ratio(f"{primitive}: batch size {high} over {low}", found[high], found[low])
    sample, update = grown.values()
    said = (
        "The prefix sum index should take about as long at every batch size, less than twice, and the update longer in "
        "proportion to it, more than twice as much longer as the index."
    )
    over = ratio("the update's growth over the index's", update, sample)
    if sample.below(2) and over.above(2):
        return Finding(Outcome.IN_KIND, (sample, update, over), said)
    refuted = sample.above(2) or over.below(2)
    return Finding(Outcome.NOT_REPRODUCED if refuted else Outcome.NO_VERDICT, (sample, update, over), said)


def fpga_linear(frame: pd.DataFrame) -> Finding:
    """Check MAP VII-C: the time of the FPGA's replay operations is proportional to large batch sizes.

    Below a batch size that MAP states, the time has to grow less than in proportion.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    limit = from_text("MAP.fpga_replay_linear_above")[0].value
    ours: list[Number] = []
    used: set[int] = set()
    linear: list[float] = []
    less: list[float] = []
    for primitive in ("sum_tree.sample", "sum_tree.update"):
        found = fastest(replay_times(frame, "hopper-ddpg", primitive)).get(FPGA, {})
        used |= {label for each in found.values() for label in each.rows}
        below, above = ([size for size in sorted(found) if (size > limit) is big] for big in (False, True))
        if len(below) < 2 or len(above) < 2:
            return Finding(
                Outcome.NOT_RUN, needs=f"{WORDS[FPGA]}, two batch sizes below {limit:g} and two above"
            )
        for sizes, kept in ((below, less), (above, linear)):
            share = _share_of_growth(primitive, found, sizes[0], sizes[-1])
            ours.append(share)
            kept.append(share.value)
    said = (
        f"1 is growth in proportion; within {LINEAR:.0%} of it counts as linear. Ours has S = {_banks(frame, used)} at "
        "every batch size and grows less at small ones because the pipelines fill; MAP's adds banks up to S = 32."
    )
    if all(abs(share - 1) <= LINEAR for share in linear) and all(share < 1 - LINEAR for share in less):
        return Finding(Outcome.IN_KIND, tuple(ours), said)
    return Finding(Outcome.NOT_REPRODUCED, tuple(ours), said)


def _banks(frame: pd.DataFrame, labels: set[int]) -> str:
    """Return the numbers of sub-trees (S) of replay rows, as text."""
    found = {int(detail(row, "banks") or 1) for row in records(frame.loc[sorted(labels)])}
    return " and ".join(map(str, sorted(found)))


def _share_of_growth(primitive: str, found: dict[int, Number], low: int, high: int) -> Number:
    """Return the ratio of times at two batch sizes divided by the ratio of the batch sizes."""
    grown = ratio("grown", found[high], found[low])
    name = f"{primitive}: time grown from batch size {low} to {high}, over the batch's growth"
    return Number(name, grown.value / (high / low), "1", grown.provenance, grown.source, rows=grown.rows)


def draw(frame: pd.DataFrame) -> "Figure | None":
    """Draw the time of the prefix sum index and of the priority update over the batch size.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    linear = from_text("MAP.fpga_replay_linear_above")[0].value
    published = [("the FPGA is linear above (published)", linear)]
    return charts.chart(
        *(
            panel(replay_times(frame, WORKLOAD, call), f"{WORKLOAD}: {name}", published)
            for call, name in CALLS.items()
        )
    )
