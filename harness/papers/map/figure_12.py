"""Compares prefix sum index and priority update on CPU, GPU and FPGA over the batch size (MAP VII-C, Fig. 12).

All of them are on trees of MAP's K (`binary_trees`).
"""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from placerl.harness.mapping.absent_platforms import printed_mappings
from placerl.harness.papers import device_table
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.charts import Panels
from placerl.harness.papers.clocks import REPLAY, AtBothClocks
from placerl.harness.papers.device_order import exact
from placerl.harness.papers.device_table import DeviceTable, OfDevices
from placerl.harness.papers.device_times import (
    AT_MOST,
    CPU,
    FPGA,
    GPU,
    OPERATIONS,
    WITHOUT_LINK,
    WORDS,
    fastest,
    listed,
    missing_sizes,
    panel,
)
from placerl.harness.papers.map import binary_trees, figure_12_linear
from placerl.harness.papers.map.binary_trees import TREES, WORKLOAD, times
from placerl.harness.papers.number import Number, from_text, ratio

SMALL, LARGE, LARGEST = 32, 512, 16384
"""Batch sizes: statements on small and large batches need one of at most 32 and one of at least 512; Hopper's largest
in MAP is 16384 (VII-E)."""
CALLS = {call: OPERATIONS[call] for call in binary_trees.CALLS}
NEEDS = {
    GPU: f"{TREES} on {WORDS[GPU]} (`placerl gpu-claims`)",
    FPGA: "cycles of MAP-F12-linear (`placerl reproduce --only MAP-F12-linear --tier standard`)",
}
"""What the FPGA's gain over a GPU lacks without one of them, and what measures it."""
MISSING = {
    CPU: "`placerl reproduce --only MAP-F12-sampling --tier standard`",
    GPU: "`make gpu-claims` on a machine with a CUDA device",
    FPGA: "`placerl reproduce --only MAP-F12-linear --tier standard`",
}


def _fpga_over_gpu(frame: pd.DataFrame, primitive: str, *, crosses: bool = False) -> Finding:
    """Check MAP Fig. 12: the FPGA is faster than the GPU at a replay operation, at every batch size.

    Args:
        crosses: whether the FPGA has to be faster at the smallest batch size alone, and the GPU at the largest.
    """
    by_kind = fastest(times(frame, primitive))
    if needs := " and ".join(text for kind, text in NEEDS.items() if kind not in by_kind):
        return Finding(Outcome.NOT_RUN, listed(by_kind), needs=needs)
    sizes = _plotted(by_kind[GPU], by_kind[FPGA])
    gains = [
        ratio(f"batch size {size}: FPGA over GPU", by_kind[GPU][size], exact(by_kind[FPGA][size]))
        for size in sizes
    ]
    if needs := missing_sizes(sizes, SMALL, LARGE):
        return Finding(
            Outcome.NOT_RUN,
            tuple(gains) or listed(by_kind),
            needs=f"{TREES} on GPU and FPGA at {needs}",
        )
    values = [gain.value for gain in gains]
    said = (
        f"From {min(values):.3g} to {max(values):.3g} times as fast over {len(values)} batch sizes. {WITHOUT_LINK} "
        f"{AT_MOST}"
    )
    if sizes[-1] < LARGEST:
        said += f" MAP's largest, {LARGEST}, is not among them."
    if crosses:  # at the largest batch an FPGA may be ahead of a GPU because its times have no link
        holds = [gains[0].above(1), gains[-1].below(1)]
        refuted = gains[0].below(1)
    else:
        holds = [gain.above(1) for gain in gains]
        refuted = any(gain.below(1) for gain in gains)
    if all(holds):
        return Finding(Outcome.CONSISTENT, tuple(gains), said)
    return Finding(Outcome.NOT_REPRODUCED if refuted else Outcome.NO_VERDICT, tuple(gains), said)


def _plotted(*times: dict[int, Number]) -> list[int]:
    """Return the batch sizes, up to MAP's largest, at which each operation or device has a time, ascending."""
    return sorted(size for size in set.intersection(*map(set, times)) if size <= LARGEST)


class _OverBatches(Claim):
    """What the claims on the figure share: the times of both replay operations over the batch size."""

    def panels(self, frame: pd.DataFrame) -> Panels:
        linear = from_text("MAP.fpga_replay_linear_above")[0].value
        published = [("the FPGA is linear above (published)", linear)]
        return [panel(times(frame, call), f"{WORKLOAD}: {name}", published) for call, name in CALLS.items()]


class _FpgaOverGpu(_OverBatches, AtBothClocks):
    """What the claims share that compare the FPGA, whose cycles have an assumed clock, with the GPU."""

    needs = " and ".join(NEEDS.values())
    measured_by = (binary_trees.cells, figure_12_linear.cells)
    blocks = REPLAY

    def finding(self, frame: pd.DataFrame) -> Finding:
        return super().finding(binary_trees.with_clock(frame))


class SamplingCrossesOver(_FpgaOverGpu, OfDevices):
    """Checks MAP Fig. 12: the FPGA finds prefix sums faster than the GPU at small batches, more slowly at large ones.

    MAP does not state where the order turns. Its GPU is bound by the launch at every batch size, so that no copies
    count in its times, as they do here (`WITHOUT_LINK`). A GPU that is faster at the smallest batch all the same
    contradicts it; an FPGA that is faster at the largest one may owe it to the copies.
    """

    key, place, position = "MAP-F12-sampling", "VII-C, Fig. 12", 12
    statement = "Prefix sum index: the FPGA is faster than the GPU at small batches and slower at large ones"
    published = from_text("MAP.prefix_sum_fpga_over_gpu_high", "MAP.prefix_sum_gpu_over_fpga_high")

    def judge(self, frame: pd.DataFrame) -> Finding:
        return _fpga_over_gpu(frame, "sum_tree.sample", crosses=True)

    def device_tables(self, frame: pd.DataFrame) -> Sequence[DeviceTable]:
        sizes, update = list(printed_mappings(WORKLOAD)), "sum_tree.update"
        over_gpu, over_fpga = self.published
        low, high = UpdateIsFasterOnFpga.published
        stated = {
            sizes[0]: f"FPGA, up to {over_gpu} as fast as the GPU",
            sizes[-1]: f"GPU, up to {over_fpga} as fast as the FPGA",
        }
        always = dict.fromkeys(sizes, f"FPGA, {low} to {high} as fast as the GPU")
        tables = [
            device_table.of_times(
                times(frame, call), WORKLOAD, name, sizes, always if call == update else stated
            )
            for call, name in CALLS.items()
        ]
        return [replace(table, missing=MISSING) for table in tables]


class GpuTimesOverBatch(_OverBatches):
    """Checks MAP Fig. 12: on the GPU, the prefix sum index takes constant time, and the update grows with the batch.

    From the smallest batch size to the largest, the index may take less than twice as long, and the update has to
    grow by more than twice as much as the index. An update that grows less contradicts nothing: the copies of a call
    (`WITHOUT_LINK`), which do not count in MAP's times, are a constant part that hides its growth. They hide that
    of the index too, so that agreement is consistent at most.
    """

    key, place, position = "MAP-F12-GPU", "VII-C, Fig. 12", 13
    statement = (
        "On the GPU the prefix sum index takes the same time at every batch size, the update grows in "
        "proportion"
    )
    needs = NEEDS[GPU]
    measured_by = (binary_trees.cells,)

    def judge(self, frame: pd.DataFrame) -> Finding:
        by_call = {call: fastest(times(frame, call)).get(GPU, {}) for call in CALLS}
        sizes = _plotted(*by_call.values())
        if needs := missing_sizes(sizes, SMALL, LARGE):
            where = "the CUDA device" if any(by_call.values()) else WORDS[GPU]
            return Finding(Outcome.NOT_RUN, needs=f"{TREES} on {where} at {needs}")
        low, high = sizes[0], sizes[-1]
        sample, update = (
            ratio(f"{CALLS[call]}: batch size {high} over {low}", at[high], at[low])
            for call, at in by_call.items()
        )
        said = (
            "The prefix sum index should take about as long at every batch size, less than twice, and the update "
            "longer in proportion to it, more than twice as much longer as the index."
        )
        over = ratio("the update's growth over the index's", update, sample)
        if sample.below(2) and over.above(2):
            return Finding(Outcome.CONSISTENT, (sample, update, over), said)
        refuted = sample.above(2)
        return Finding(
            Outcome.NOT_REPRODUCED if refuted else Outcome.NO_VERDICT, (sample, update, over), said
        )


class UpdateIsFasterOnFpga(_FpgaOverGpu):
    """Checks MAP Fig. 12: the FPGA updates priorities faster than the GPU at every batch size."""

    key, place, position = "MAP-F12-update", "VII-C, Fig. 12", 15
    statement = "Priority update: the FPGA is always faster than the GPU"
    published = from_text("MAP.priority_update_fpga_over_gpu_low", "MAP.priority_update_fpga_over_gpu_high")

    def judge(self, frame: pd.DataFrame) -> Finding:
        return _fpga_over_gpu(frame, "sum_tree.update")
