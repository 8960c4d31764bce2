"""Explores sizes of arrays and dataflows for PPO: the fewest cycles within a device's resources (PPO 4, Equation 9).

For example:

    from placerl.primitives.fpga.cycles import networks, ppo
    from placerl.primitives.fpga.devices import catalogue
    from placerl.primitives.fpga.explore import ppo_array

    designs = ppo_array.ppo_designs(
        networks.PPO_NETWORKS["Hopper"], ppo.PpoIteration(16, 512, 512, 10), catalogue.device("u200")
    )
    designs[0].side, designs[0].dataflows, designs[0].cycles
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from placerl.primitives.fpga.cycles import gemm
from placerl.primitives.fpga.cycles.communication import UNCOUNTED, Communication
from placerl.primitives.fpga.cycles.networks import GemmLayer
from placerl.primitives.fpga.cycles.ppo import (
    PpoIteration,
    ProductCycles,
    best_dataflows,
    iteration_cycles,
)
from placerl.primitives.fpga.devices.catalogue import FpgaDevice
from placerl.primitives.fpga.gemm.plan import blocks

POWERS_OF_TWO = (2, 4, 8, 16, 32, 64, 128)  # PPO 5.2: least padding where layers are powers of 2


@dataclass(frozen=True)
class Datapath:
    """The DSPs that a design needs for its arithmetic.

    Attributes:
        width: bits of a word.
        dsps: DSPs of a processing element.
        update_dsps: DSPs of the weight update and the Hadamard products, for each of their P lanes.
    """

    width: int = 32
    dsps: int = 4
    update_dsps: int = 4


# 32 x 32 products of two 32 x 16 multipliers of two DSPs each (FIX V-C), as Yosys maps them.
FIXED_32 = Datapath()
FIXED_16 = Datapath(width=16, dsps=1, update_dsps=1)


@dataclass(frozen=True)
class Design:
    """A design for PPO: compute units with arrays of one size, their cycles and their resources.

    Attributes:
        side: P, rows and columns of an array.
        units: number of compute units, with P x P elements each.
        dataflows: the best dataflow ("NS", "WS" or "IS") of each process ("FW": forward, "BW": backward, "WU":
            gradients of the weights), for a mini-batch of the training, with the operands in the order of
            Equation 6 (`cycles.ppo.shapes`). `ppo_accelerator` has them in the other order: there "WS" and "IS" change
            places.
        cycles: cycles of one PPO iteration by a model (Equations 7 and 8).
        dsps, block_rams: numbers of DSPs and of block RAMs that the design needs.
        fits: whether the device has these resources.
    """

    side: int
    units: int
    dataflows: dict[str, str]
    cycles: int
    dsps: int
    block_rams: int
    fits: bool


def array_dsps(side: int, units: int, datapath: Datapath) -> int:
    """Return the DSPs of the arrays, of weight updates and of Hadamard products in all units (PPO 4).

    Args:
        datapath: DSPs of an element and of a lane.
    """
    return units * (side * side * datapath.dsps + 2 * side * datapath.update_dsps)


def blocked_block_rams(words: int, side: int, width: int, device: FpgaDevice) -> int:
    """Return the number of block RAMs for a matrix memory in the blocked layout (PPO 3.2.2.2).

    The memory has P x P banks, and each takes a whole number of halves of a block RAM. A half holds a power of two of
    words, so that words of 32 bits leave some of its bits unused: 512 of them are in 18 Kbit.

    Args:
        side: P, rows and columns of banks.
    """
    half_words = 1 << (device.block_ram_bits // 2 // width).bit_length() - 1
    halves = max(1, blocks(blocks(words, side * side), half_words))
    return blocks(side * side * halves, 2)


def unit_block_rams(
    layers: Sequence[GemmLayer], batch: int, side: int, width: int, device: FpgaDevice
) -> int:
    """Return the number of block RAMs of one compute unit that has all its data on the chip.

    The data are the weights, the activations a, the products z, and the gradients d.
    """
    weights = sum(layer.weights for layer in layers)
    results = batch * sum(layer.outputs * layer.out_size[0] * layer.out_size[1] for layer in layers)
    inputs = batch * layers[0].inputs * layers[0].in_size[0] * layers[0].in_size[1]
    buffers = (weights, inputs + results, results, results)
    return sum(blocked_block_rams(words, side, width, device) for words in buffers)


def ppo_designs(
    layers: Sequence[GemmLayer],
    iteration: PpoIteration,
    device: FpgaDevice,
    *,
    units: int = 2,
    datapath: Datapath = FIXED_32,
    sides: Iterable[int] = POWERS_OF_TWO,
    product_cycles: ProductCycles = gemm.ppo_cycles,
    communication: Communication = UNCOUNTED,
) -> list[Design]:
    """Return a design for every size of array: first those that fit the device, the fastest first.

    Args:
        units: number of compute units, one per separately trained network.
        datapath: width of a word, and DSPs of an element.
        sides: values of P, rows and columns of the array.
        product_cycles: returns the cycles of one product; by default by PPO's Equation 5.
        communication: the transfers (T_comm), by default without time. With an external memory, activations, products
            and gradients are there, so that only the weights are on chip (PPO 3.1, CNNs).
    """
    designs = []
    for side in sides:
        if communication.memory is not None:
            weights = sum(layer.weights for layer in layers)
            block_rams = blocked_block_rams(weights, side, datapath.width, device)
        else:
            block_rams = unit_block_rams(layers, iteration.minibatch, side, datapath.width, device)
        dsps = array_dsps(side, units, datapath)
        model: dict[str, Any] = {
            "side": side,
            "product_cycles": product_cycles,
            "communication": communication,
        }
        designs.append(
            Design(
                side,
                units,
                best_dataflows(layers, iteration.minibatch, **model),
                iteration_cycles(layers, iteration, **model).total,
                dsps,
                units * block_rams,
                dsps < device.dsps and units * block_rams <= device.block_rams,
            )
        )
    return sorted(designs, key=lambda design: (not design.fits, design.cycles))
