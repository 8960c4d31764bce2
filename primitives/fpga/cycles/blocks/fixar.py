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
        sizes: the batch size of each step, whether activations have 16 bits, and whether Adam runs alongside the next
            loop.
    """
    shape, model = benchmark(*parameters), start()
    return [
        simulated_step(model, shape, batch, halves=halves, overlap=overlap)
        for batch, halves, overlap in sizes
    ]


def simulated_step(model: Any, shape: FixarShape, batch: int, *, halves: bool, overlap: bool) -> int:
    """Return the cycles of a training step that follows another one at once."""
    from placerl.primitives.fpga.fixar.accelerator import FixarCommand

    model.write("halves", int(halves))
    model.write("overlap", int(overlap))
    model.write("groups", groups_of(batch, halves=halves))
    steps = 2 if overlap else 1  # otherwise they are alike
    lines = np.zeros((steps * lines_read(shape, batch), shape.side), np.int64)
    commands = np.full(steps, FixarCommand.TRAIN)
    model.run({"commands": commands, "samples": lines}, {"errors": steps * batch})
    while model.read("busy"):
        model.step(POLL_CYCLES)
    return int(model.read("cycles"))


BLOCK = TimedBlock("fixar", "placerl.primitives.fpga.fixar.accelerator", build, simulate)
