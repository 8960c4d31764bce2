"""Compares the time of gradient steps on CPU, GPU and FPGA over the batch size (MAP VII-C, Fig. 11)."""

from typing import TYPE_CHECKING

import pandas as pd

from placerl.harness.papers import charts
from placerl.harness.papers.base import Check, Draw, Finding, Outcome
from placerl.harness.papers.clocks import at_both_clocks
from placerl.harness.papers.device_order import ordered
from placerl.harness.papers.device_times import (
    FPGA,
    GPU,
    fastest,
    lacking,
    learner_times,
    listed,
    panel,
    shared_sizes,
)
from placerl.harness.papers.number import from_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def crossover(workload: str, name: str) -> Check:
    """Return the check that a gradient step is fastest on the FPGA at small batches, and on the GPU at large ones.

    Args:
        workload: the workload whose gradient steps are compared.
        name: suffix, such as "hopper", of the names of MAP's two batch sizes (`harness.papers.published.text`).
    """
    return at_both_clocks(lambda frame: _crossover(frame, workload, *_keys(name)))


def _crossover(frame: pd.DataFrame, workload: str, fpga_below: str, gpu_above: str) -> Finding:
    """Check whether a gradient step is fastest on the FPGA at small batches and on the GPU at large ones.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
        workload: name of the workload.
        fpga_below: name of the batch size in the paper's text below which the FPGA is fastest, such as
            "MAP.fpga_training_best_below_hopper" (`published.text`).
        gpu_above: name of the batch size in the paper's text above which the GPU is fastest.
    """
    found = fastest(learner_times(frame, workload))
    ours = listed(found)
    if needs := lacking(found, GPU, FPGA):
        return Finding(Outcome.NOT_RUN, ours, needs=needs)
    small, large = (n.value for n in from_text(fpga_below, gpu_above))
    below = {size: FPGA for size in shared_sizes(found) if size < small}
    above = {size: GPU for size in shared_sizes(found) if size > large}
    if not below or not above:
        return Finding(Outcome.NOT_RUN, ours, needs=f"batch sizes below {small:g} and above {large:g}")
    return ordered(found, below | above)


def smallest_network(frame: pd.DataFrame) -> Finding:
    """Check MAP Fig. 11, CartPole: the FPGA trains fastest at every batch size.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    found = fastest(learner_times(frame, "cartpole-ddpg"))
    ours = listed(found)
    if needs := lacking(found, GPU, FPGA):
        return Finding(Outcome.NOT_RUN, ours, needs=needs)
    if not shared_sizes(found):
        return Finding(Outcome.NOT_RUN, ours, needs="one batch size on every device")
    return ordered(found, dict.fromkeys(shared_sizes(found), FPGA))


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
        rows = learner_times(frame, workload)
        return charts.chart(panel(rows, f"{workload}: gradient step", published if name else ()))

    return drawn


def _keys(name: str) -> tuple[str, str]:
    return f"MAP.fpga_training_best_below_{name}", f"MAP.gpu_training_best_above_{name}"
