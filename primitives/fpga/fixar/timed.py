"""The simulated cycles of training steps: the accelerator's sequencer, scalar unit and counters, without its datapath.

Nothing that takes or gives numbers decides how long a step lasts, so that these are the cycles of the whole design, as
the tests check with data for one batch. Each size is simulated once, and kept on disk.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from placerl.primitives.fpga.cycles.simulated_once import SimulatedOnce
from placerl.primitives.fpga.fixar.shape import FixarShape, benchmark, groups_of
from placerl.primitives.fpga.gemm.plan import blocks

Size = tuple[str, int, int, bool]
POLL_CYCLES = 256


def lines_read(shape: FixarShape, batch: int) -> int:
    """Return the number of lines that a training step reads: states three times, an outcome and an action a sample.

    Args:
        shape: sizes of the accelerator.
        batch: B.
    """
    return batch * (3 * blocks(shape.state, shape.side) + 2)


def _simulate(sizes: Sequence[Any]) -> list[int]:
    from placerl.primitives.fpga import simulation
    from placerl.primitives.fpga.fixar.accelerator import Fixar, FixarCommand

    models: dict[tuple[str, int], Any] = {}
    found = []
    for network, side, batch, halves in sizes:
        shape = benchmark(network, side)
        if (network, side) not in models:
            models[network, side] = simulation.compiled(Fixar(shape, datapath=False))
        model = models[network, side]
        model.write("halves", int(halves))
        model.write("groups", groups_of(batch, halves=halves))
        lines = np.zeros((lines_read(shape, batch), side), np.int64)
        model.run({"commands": np.array([FixarCommand.TRAIN]), "samples": lines}, {"errors": batch})
        while model.read("busy"):
            model.step(POLL_CYCLES)
        found.append(int(model.read("cycles")))
    return found


_KEPT = SimulatedOnce("placerl.primitives.fpga.fixar.accelerator", _simulate)


def simulated_cycles(sizes: Sequence[Size]) -> list[int]:
    """Return the cycles of training steps, from the command to the end of the last update.

    Args:
        sizes: of each step: the network ("halfcheetah", "hopper" or "swimmer"), P, the batch size, and whether
            activations have 16 bits.
    """
    _KEPT.simulate([list(size) for size in sizes])
    return [int(_KEPT(list(size))) for size in sizes]


def are_known(sizes: Sequence[Size]) -> bool:
    """Return whether the cycles of these training steps need no further simulation.

    Args:
        sizes: as `simulated_cycles` takes them.
    """
    return all(_KEPT.is_known(list(size)) for size in sizes)
