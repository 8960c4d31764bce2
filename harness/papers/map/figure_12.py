"""Compares prefix sum index and priority update on CPU, GPU and FPGA over the batch size (MAP VII-C, Fig. 12)."""

from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from harness.papers import charts, devices
from harness.papers.base import Finding
from harness.papers.clocks import REPLAY, at_both_clocks
from harness.papers.number import from_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORKLOAD = "hopper-ddpg"
CALLS = {"sum_tree.sample": "prefix sum index", "sum_tree.update": "priority update"}


@partial(at_both_clocks, blocks=REPLAY)
def sampling(frame: pd.DataFrame) -> Finding:
    """Check MAP Fig. 12: the FPGA finds prefix sums faster than the GPU at small batches, more slowly at large ones.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    keys = "MAP.prefix_sum_gpu_over_fpga_high", "MAP.prefix_sum_fpga_over_gpu_high"
    return devices.fpga_over_gpu(frame, "sum_tree.sample", *keys)


@partial(at_both_clocks, blocks=REPLAY)
def update(frame: pd.DataFrame) -> Finding:
    """Check MAP Fig. 12: the FPGA updates priorities faster than the GPU at every batch size.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    keys = "MAP.priority_update_fpga_over_gpu_low", "MAP.priority_update_fpga_over_gpu_high"
    return devices.fpga_over_gpu(frame, "sum_tree.update", *keys)


def draw(frame: pd.DataFrame) -> "Figure | None":
    """Draw the time of the prefix sum index and of the priority update over the batch size.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    linear = from_text("MAP.fpga_replay_linear_above")[0].value
    published = [("the FPGA is linear above (published)", linear)]
    return charts.chart(
        *(
            devices.panel(devices.replay_times(frame, WORKLOAD, call), f"{WORKLOAD}: {name}", published)
            for call, name in CALLS.items()
        )
    )
