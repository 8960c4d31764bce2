"""Cycles of training two networks on two compute units, with and without load balancing (PPO 3.3, Fig. 15).

Both networks train until the first has done its epochs. Without balancing its unit then idles; with it, the other
network's mini-batches are split over both units, whose gradients meet in one adder array: a cycle more per product
that fills and drains the array, since the sums stream through it (`weight_update.WeightUpdate`).
"""

from collections.abc import Sequence

from primitives.fpga.cycles import gemm
from primitives.fpga.cycles.networks import Layer
from primitives.fpga.cycles.ppo import PROCESSES, ProductCycles, best_dataflows, process_cycles
from primitives.fpga.gemm_plan import blocks

JOIN_CYCLES = 1  # the adder array's register


def update_cycles(
    layers: Sequence[Layer], batch: int, *, side: int, product_cycles: ProductCycles = gemm.ppo_cycles
) -> int:
    """Cycles of one mini-batch update, FW, BW and WU, each in its best dataflow."""
    chosen = best_dataflows(layers, batch, side=side, product_cycles=product_cycles)
    return sum(
        process_cycles(
            layers, process, batch, side=side, dataflow=chosen[process], product_cycles=product_cycles
        )
        for process in PROCESSES
    )


def training_cycles(
    policy: Sequence[Layer],
    value: Sequence[Layer],
    *,
    policy_updates: int,
    value_updates: int,
    minibatch: int,
    side: int,
    balanced: bool,
    product_cycles: ProductCycles = gemm.ppo_cycles,
) -> int:
    """Cycles until both networks have done their updates.

    With balancing the rest of the longer one runs on both units, each with half of every mini-batch.
    """

    def cycles(layers: Sequence[Layer], batch: int) -> int:
        return update_cycles(layers, batch, side=side, product_cycles=product_cycles)

    busy = {
        "policy": policy_updates * cycles(policy, minibatch),
        "value": value_updates * cycles(value, minibatch),
    }
    if not balanced:
        return max(busy.values())
    longer = max(busy, key=lambda name: busy[name])
    layers = policy if longer == "policy" else value
    shared = cycles(layers, blocks(minibatch, 2)) + len(layers) * JOIN_CYCLES
    alone = min(busy.values())
    rest_updates = (busy[longer] - alone) / cycles(layers, minibatch)
    return alone + round(rest_updates * min(shared, cycles(layers, minibatch)))
