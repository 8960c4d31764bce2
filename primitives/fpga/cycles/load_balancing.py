"""Cycles of training two networks on two compute units, with and without load balancing (PPO 3.3, Fig. 15).

Both networks train until the first has done its updates. Without balancing, the unit of that network then idles. With
balancing, both units share the other network's mini-batches, and one adder array combines their gradients.

PPO has no formula beyond Equation 5 for each product. The hardware (`fpga.pair.load_balancing.UnitPair`) differs as
follows (`pair_update_cycles`, exact): a product ends when the array is empty, a few cycles after its last sum, and a
gradient's rows are added to the weights at one row per cycle.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from placerl.primitives.fpga.cycles import gemm
from placerl.primitives.fpga.cycles.networks import GemmLayer
from placerl.primitives.fpga.cycles.ppo import (
    PROCESSES,
    ProductCycles,
    best_dataflows,
    process_cycles,
    shapes,
)
from placerl.primitives.fpga.gemm.plan import blocks

PRODUCT_CYCLES = (
    5  # beyond the core's: the first request and its answer, the empty array, the answer, the next command
)
UPDATE_CYCLES = 1  # beyond a gradient's rows: the adders' register


@dataclass(frozen=True)
class UpdateDivision:
    """The division of the updates of a policy and a value network between two compute units.

    Each unit first updates its own network. Once one has done all its updates, both share the other network's rest.

    Attributes:
        alone: number of updates before the sharing: of the policy on unit 0, and of the value network on unit 1.
        longer: the network that both units share in the end: 0 is the policy, 1 the value network.
        shared: number of updates that both units share.
    """

    alone: tuple[int, int]
    longer: int
    shared: int


def schedule(update_cycles: Sequence[int], updates: tuple[int, int]) -> UpdateDivision:
    """Return the schedule in which each unit updates its own network until one is free, and both share the rest.

    Args:
        update_cycles: cycles of one update of the policy, and of one of the value network.
        updates: number of updates of the policy, and of the value network.
    """
    busy = [cycles * count for cycles, count in zip(update_cycles, updates, strict=True)]
    longer = int(busy[1] > busy[0])
    alone = list(updates)
    alone[longer] = min(updates[longer], blocks(busy[1 - longer], update_cycles[longer]))
    return UpdateDivision((alone[0], alone[1]), longer, updates[longer] - alone[longer])


def trained_cycles(
    update_cycles: Sequence[int], shared_cycles: Sequence[int], updates: tuple[int, int], *, balanced: bool
) -> int:
    """Return the cycles until a policy and a value network have done their updates on two compute units.

    Args:
        update_cycles: cycles of one update of the policy, and of one of the value network, on one unit.
        shared_cycles: those on both units, each with half of the mini-batch.
        updates: number of updates of the policy, and of the value network.
        balanced: whether both units share the rest of the longer training.
    """
    if not balanced:
        return max(cycles * count for cycles, count in zip(update_cycles, updates, strict=True))
    found = schedule(update_cycles, updates)
    alone = max(cycles * count for cycles, count in zip(update_cycles, found.alone, strict=True))
    return alone + found.shared * shared_cycles[found.longer]


def update_cycles(
    layers: Sequence[GemmLayer], batch: int, *, side: int, product_cycles: ProductCycles = gemm.ppo_cycles
) -> int:
    """Return the cycles of one mini-batch update on a compute unit, with the best dataflow for each process.

    The processes are the forward pass (FW), the backward pass (BW) and the gradients of the weights (WU).
    """
    chosen = best_dataflows(layers, batch, side=side, product_cycles=product_cycles)
    return sum(
        process_cycles(
            layers, process, batch, side=side, dataflow=chosen[process], product_cycles=product_cycles
        )
        for process in PROCESSES
    )


def pair_update_cycles(layers: Sequence[GemmLayer], batch: int, *, side: int) -> int:
    """Return the cycles of one mini-batch update on the hardware with two compute units, `UnitPair`.

    Args:
        batch: samples that each unit processes: the mini-batch, or half of it if both units share the update.
    """
    gradients = shapes(layers, "WU", batch)
    products = sum(len(shapes(layers, process, batch)) for process in PROCESSES)
    rows = sum(blocks(shape.a, side) * blocks(shape.c, side) * side for shape in gradients)
    core = update_cycles(layers, batch, side=side, product_cycles=gemm.block_load_cycles)
    return core + products * PRODUCT_CYCLES + rows + len(gradients) * UPDATE_CYCLES


def training_cycles(
    policy: Sequence[GemmLayer],
    value: Sequence[GemmLayer],
    *,
    policy_updates: int,
    value_updates: int,
    minibatch: int,
    side: int,
    balanced: bool,
    pair: bool = False,
) -> int:
    """Return the cycles until a policy and a value network have done their updates on two compute units.

    Args:
        policy_updates, value_updates: number of mini-batch updates of each.
        balanced: whether the rest of the longer training runs on both units, each with half of every mini-batch.
        pair: whether the cycles are those of `fpga.pair.load_balancing.UnitPair`; otherwise those of Equation 5.
    """
    of_update = pair_update_cycles if pair else update_cycles
    of_one, of_half = (
        [of_update(layers, batch, side=side) for layers in (policy, value)]
        for batch in (minibatch, blocks(minibatch, 2))
    )
    return trained_cycles(of_one, of_half, (policy_updates, value_updates), balanced=balanced)
