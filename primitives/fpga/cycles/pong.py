"""Cycles of Pong's passes on the convolutional accelerator at PPO's size (PPO 5.2), next to PPO's Equation 6.

The closed form is the one that tests compare with the RTL at small sizes. Tensors are on the chip, or in external
memory of a stated bandwidth: neither PPO nor MAP states how long a transfer takes to begin.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from placerl.primitives.fpga.convolution.layer_shape import folded
from placerl.primitives.fpga.convolution.program import ImageProgram
from placerl.primitives.fpga.cycles import ppo
from placerl.primitives.fpga.cycles.communication import Channel
from placerl.primitives.fpga.cycles.convolutional_accelerator import RunCycles, run_cycles
from placerl.primitives.fpga.cycles.networks import PPO_NETWORKS, GemmLayer
from placerl.primitives.fpga.gemm.plan import DATAFLOWS

SIDE, CLOCK_HZ = 32, 300e6  # PPO 5.2
BATCHES = (8, 128)  # N and M of PPO 5.3.3
WINDOW_BLOCKS, DELTA_BLOCKS = 1024, 128
"""Blocks of 32 x 32 for two bands: of 512 x 1,024 windows' numbers, and of 128 x 512 gradients' (36 Mbit together)."""
STREAMED = 2048
"""Most vectors of a pass of WS or IS."""
MEMORIES = {
    "on the chip": None,
    "77 GB/s": Channel.at_clock(77e9, 0.0, CLOCK_HZ),
    "19.25 GB/s": Channel.at_clock(19.25e9, 0.0, CLOCK_HZ),
    "19.25 GB/s, 1 us a transfer": Channel.at_clock(19.25e9, 1e-6, CLOCK_HZ),
}
"""Where the tensors are: MAP Table IV's bandwidth of the U200, which has four memories, and a quarter of it."""
PROCESSES = {"forward": ("FW",), "training": ("BW", "WU")}
"""The passes, and those of Equation 6 that they consist of. Adam's step, in `training`, is not in Equation 6."""


@dataclass(frozen=True)
class PongPass:
    """A pass of Pong's network.

    Attributes:
        name: "forward", or "training": backward, weight gradients and Adam.
        batch: samples.
        memory: where the tensors are, of `MEMORIES`.
        dataflow: the fastest one of FW, or of BW.
        cycles: its cycles.
        stated: those of Equation 6, each process in its fastest dataflow.
    """

    name: str
    batch: int
    memory: str
    dataflow: str
    cycles: RunCycles
    stated: int


def layers() -> tuple[GemmLayer, ...]:
    """Return the layers of Pong's network, the last one with the policy's outputs and the value's (PPO 5.1)."""
    *shared, policy = PPO_NETWORKS["Pong"]
    return (*shared, replace(policy, outputs=policy.outputs + 1))


def passes() -> Iterator[PongPass]:
    """Yield the passes of both batches, with the tensors in each of `MEMORIES`."""
    for batch in BATCHES:
        for name, processes in PROCESSES.items():
            stated = sum(_stated_cycles(process, batch) for process in processes)
            for memory, channel in MEMORIES.items():
                dataflow, cycles = _fastest(name, batch, channel)
                yield PongPass(name, batch, memory, dataflow, cycles, stated)


def _stated_cycles(process: str, batch: int) -> int:
    """Return the cycles of a process by Equation 6, in its fastest dataflow."""
    return min(
        ppo.process_cycles(layers(), process, batch, side=SIDE, dataflow=dataflow) for dataflow in DATAFLOWS
    )


def _fastest(name: str, batch: int, memory: Channel | None) -> tuple[str, RunCycles]:
    """Return the fastest dataflow of a pass, and its cycles."""
    first, *rest = layers()
    found = {}
    for dataflow in DATAFLOWS:
        program = ImageProgram(
            (folded(first), *rest),
            batch,
            SIDE,
            WINDOW_BLOCKS,
            DELTA_BLOCKS,
            (dataflow, dataflow),
            STREAMED,
        )
        run = program.forward() if name == "forward" else program.training()
        found[dataflow] = run_cycles(run, side=SIDE, memory=memory)
    return min(found.items(), key=lambda item: item[1].total)
