"""Compares the time of gradient steps on CPU, GPU and FPGA over the batch size (MAP VII-C, Fig. 11)."""

from typing import TYPE_CHECKING

import pandas as pd

from harness.papers import charts, devices
from harness.papers.base import Check, Draw
from harness.papers.clocks import at_both_clocks
from harness.papers.number import from_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def crossover(workload: str, name: str) -> Check:
    """Return the check that a gradient step is fastest on the FPGA at small batches, and on the GPU at large ones.

    Args:
        workload: the workload whose gradient steps are compared.
        name: suffix, such as "hopper", of the names of MAP's two batch sizes (`harness.papers.published.text`).
    """
    return at_both_clocks(lambda frame: devices.crossover(frame, workload, *_keys(name)))


def draw(workload: str, name: str = "") -> Draw:
    """Return the function that draws the times of a workload's gradient step over the batch size.

    Args:
        workload: the workload.
        name: suffix, such as "hopper", of the names of the two batch sizes that MAP states for it
            (`harness.papers.published.text`), which are also drawn; empty if MAP states none.
    """

    def drawn(frame: pd.DataFrame) -> "Figure | None":
        below, above = (n.value for n in from_text(*_keys(name))) if name else (0.0, 0.0)
        published = [("the FPGA is fastest below (published)", below), ("the GPU above (published)", above)]
        rows = devices.learner_times(frame, workload)
        return charts.chart(devices.panel(rows, f"{workload}: gradient step", published if name else ()))

    return drawn


def _keys(name: str) -> tuple[str, str]:
    return f"MAP.fpga_training_best_below_{name}", f"MAP.gpu_training_best_above_{name}"
