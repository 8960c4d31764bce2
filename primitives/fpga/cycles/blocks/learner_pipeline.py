"""The learner pipeline, timed by its stages without their datapaths (`learner_pipeline.timer`)."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placerl.primitives.fpga.cycles.timed_block import TimedBlock
from placerl.primitives.fpga.simulation.base import LIMIT_CYCLES


def build(*counts: int) -> Any:
    """Return the timer of pipelines with a topology.

    Args:
        counts: the fields of `Topology`.
    """
    from placerl.primitives.fpga.learner_pipeline.timer import PipelineTimer, Topology

    return PipelineTimer(Topology(*counts))


def stalled_after(expected_cycles: int) -> int:
    """Return after how many cycles a simulation counts as stalled that a closed form expects to take so many."""
    return max(LIMIT_CYCLES, 2 * expected_cycles)


def simulate(start: Callable[[], Any], parameters: Sequence[Any], sizes: Sequence[Any]) -> list[int]:
    """Return the cycles of passes of a batch.

    Args:
        sizes: the cycles that a closed form expects of each pass, and the fields of its command.
    """
    model, found = start(), []
    for expected, command in sizes:
        fields = {name: np.array([value]) for name, value in command.items()}
        run = model.run({"commands": fields}, {"cycles": 1}, limit_cycles=stalled_after(expected))
        found.append(int(run.outputs["cycles"][0]))
    return found


BLOCK = TimedBlock("learner_pipeline", "placerl.primitives.fpga.learner_pipeline.timer", build, simulate)
