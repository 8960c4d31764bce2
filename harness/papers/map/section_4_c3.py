"""Compares the prefix sum index on a GPU with one thread of the CPU at small batches (MAP IV-C3)."""

import pandas as pd

from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.device_times import CPU, GPU, NAMES, OPENCL, fastest, times
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


class SmallBatchesAreSlowerOnGpu(Claim):
    """Checks MAP IV-C3: at the smallest batch the GPU finds prefix sums more slowly than one thread of the CPU."""

    key, place, position = "MAP-IV-C3", "IV-C3", 7
    statement = "At small batches the prefix sum index takes longer on the GPU than on one CPU thread"
    needs = "Hopper's sum tree on a CUDA device and natively on one thread, profiled at one batch size"
    reads = ("profile/hopper-ddpg",)

    def judge(self, frame: pd.DataFrame) -> Finding:
        rows = times(frame, "hopper-ddpg", "sum_tree.sample")
        by_size = _over_one_thread(rows, GPU)
        if not by_size:
            stand_in = tuple(_over_one_thread(rows, OPENCL).values())
            said = (
                "An OpenCL device, which may be this CPU, stands in: it shows what the calls of a device's runtime "
                "cost at small batches, and decides nothing about a GPU."
            )
            return Finding(Outcome.NOT_RUN, stand_in, said if stand_in else "", needs=self.needs)
        ours, least = tuple(by_size.values()), min(by_size)
        said = f"Judged at the smallest batch size, {least}; the paper does not say how small."
        if ours[0].above(1):
            return Finding(Outcome.REPRODUCED, ours, said)
        return Finding(Outcome.NOT_REPRODUCED if ours[0].below(1) else Outcome.NO_VERDICT, ours, said)
