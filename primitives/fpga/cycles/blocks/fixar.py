"""FIX's accelerator: its sequencer, scalar unit and counters, without its datapath (`fixar.accelerator`).

Nothing that takes or gives numbers decides how long a step lasts, so that these are the cycles of the whole design, as
the tests check with data for one batch.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placerl.primitives.fpga.cycles.timed_block import TimedBlock
from placerl.primitives.fpga.fixar.shape import FixarShape, benchmark, groups_of
from placerl.primitives.fpga.gemm.plan import blocks

POLL_CYCLES = 256


def lines_read(shape: FixarShape, batch: int) -> int:
    """Return the number of lines that a training step reads: states three times, an outcome and an action a sample."""
    return batch * (3 * blocks(shape.state, shape.side) + 2)


def build(network: str, side: int) -> Any:
    """Return the accelerator without its datapath.

    Args:
        network: "halfcheetah", "hopper" or "swimmer".
    """
    from placerl.primitives.fpga.fixar.accelerator import Fixar

    return Fixar(benchmark(network, side), datapath=False)


def simulate(start: Callable[[], Any], parameters: Sequence[Any], sizes: Sequence[Any]) -> list[int]:
    """Return the cycles of training steps, from the command to the end of the last update.

    Args:
        sizes: the batch size of each step, and whether activations have 16 bits.
    """
    from placerl.primitives.fpga.fixar.accelerator import FixarCommand

    network, side = parameters
    shape, model, found = benchmark(network, side), start(), []
    for batch, halves in sizes:
        model.write("halves", int(halves))
        model.write("groups", groups_of(batch, halves=halves))
        lines = np.zeros((lines_read(shape, batch), side), np.int64)
        model.run({"commands": np.array([FixarCommand.TRAIN]), "samples": lines}, {"errors": batch})
        while model.read("busy"):
            model.step(POLL_CYCLES)
        found.append(int(model.read("cycles")))
    return found


BLOCK = TimedBlock("fixar", "placerl.primitives.fpga.fixar.accelerator", build, simulate)
