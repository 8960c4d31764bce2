"""Draws the times of primitives on CPU, GPU and FPGA over the batch size (PRL 6.2, Fig. 6 and 7)."""

from typing import TYPE_CHECKING

import pandas as pd

from harness.papers import charts, devices

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORKLOAD = "cartpole-dqn"


def draw_replay(frame: pd.DataFrame) -> "Figure | None":
    """Draw the time of sampling and of the priority update over the batch size (Fig. 6).

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    calls = {"sum_tree.sample": "sampling", "sum_tree.update": "priority update"}
    return charts.chart(
        *(
            devices.panel(devices.times(frame, WORKLOAD, call), f"{WORKLOAD}: {name}")
            for call, name in calls.items()
        )
    )


def draw_learner(frame: pd.DataFrame) -> "Figure | None":
    """Draw the time of a gradient step over the batch size (Fig. 7).

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    rows = devices.learner_times(frame, WORKLOAD)
    return charts.chart(devices.panel(rows, f"{WORKLOAD}: gradient step"))
