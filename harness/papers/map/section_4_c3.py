"""Compares the prefix sum index on a GPU with one thread of the CPU at small batches (MAP IV-C3)."""

import pandas as pd

from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.device_times import CPU, GPU, NAMES, OPENCL, fastest
from placerl.harness.papers.map import binary_trees
from placerl.harness.papers.number import Number, ratio

ONE_THREAD = "native"
"""The backend of the sum tree whose calls use one thread of the CPU."""


def _over_one_thread(rows: pd.DataFrame, kind: str) -> dict[int, Number]:
    """Return the time on a kind of device over that of one CPU thread, by ascending batch size."""
    there = fastest(rows[rows["kind"] == kind]).get(kind, {})
    here = fastest(rows[rows["backend"] == ONE_THREAD]).get(CPU, {})
    on = "the OpenCL device" if kind == OPENCL else f"the {NAMES[kind]}"
    return {
        size: ratio(f"batch size {size}: time on {on} over one CPU thread", there[size], here[size])
        for size in sorted(there.keys() & here.keys())
    }


SMALLEST = 32
"""The smallest batch size of MAP's experiments (VII)."""


class SmallBatchesAreSlowerOnGpu(Claim):
    """Checks MAP IV-C3: at the smallest batch the GPU finds prefix sums more slowly than one thread of the CPU.

    The paper does not say how small, only that large batches gain, so that one batch size alone shows nothing: with two
    or more, the GPU has to be slower at the smallest, and to come nearer at the largest. Both are on trees of MAP's K.
    Calls include the copies between host and device. MAP names the launch of a kernel as the reason (IV-C3), and the
    copies may be another, so that agreement is consistent at most.
    """

    key, place, position = "MAP-IV-C3", "IV-C3", 7
    statement = "At small batches the prefix sum index takes longer on the GPU than on one CPU thread"
    needs = binary_trees.NEEDS
    measured_by = (binary_trees.cells,)

    def judge(self, frame: pd.DataFrame) -> Finding:
        rows = binary_trees.times(frame, "sum_tree.sample")
        by_size = _over_one_thread(rows, GPU)
        if not by_size:
            stand_in = tuple(_over_one_thread(rows, OPENCL).values())
            said = (
                "An OpenCL device, which may be this CPU, stands in: it shows what the calls of a device's runtime "
                "cost at small batches, and decides nothing about a GPU."
            )
            return Finding(Outcome.NOT_RUN, stand_in, said if stand_in else "", needs=self.needs)
        ours, least, most = tuple(by_size.values()), min(by_size), max(by_size)
        small, large = by_size[least], by_size[most]
        said = f"Batch sizes {least} to {most}, copies included; the paper does not say how small."
        if small.below(1) and least <= SMALLEST:
            return Finding(Outcome.NOT_REPRODUCED, ours, said)
        if not small.above(1) or not large.below(small.value):
            decides = f"{binary_trees.TREES} on a CUDA device at batch sizes {SMALLEST} and 16384, next to the CPU's"
            return Finding(Outcome.NO_VERDICT, ours, said, decides=decides)
        return Finding(Outcome.CONSISTENT, ours, said)
