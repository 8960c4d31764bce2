"""The memories of PPO's accelerator: their sizes for networks, and the block RAMs that their banks take."""

from collections.abc import Sequence

from placerl.primitives.fpga.cycles.networks import PPO_NETWORKS
from placerl.primitives.fpga.gemm.plan import blocks
from placerl.primitives.fpga.ppo_accelerator.program import NetworkProgram

HALF_RAM_WORDS = 512
"""Words of 32 bits in a half of a block RAM of UltraScale+ (RAMB18E2, 512 x 36)."""


def programs_for(network: str, *, side: int, batch: int) -> tuple[NetworkProgram, NetworkProgram]:
    """Return the programs of a benchmark's policy and value network (PPO 5.1).

    Args:
        network: "hopper" or "humanoid".
    """
    layers = PPO_NETWORKS[network.capitalize()]
    sizes = (layers[0].inputs, *(layer.outputs for layer in layers))
    policy, value = (NetworkProgram((*sizes[:-1], outputs), batch, side) for outputs in (sizes[-1], 1))
    return policy, value


def memory_blocks(programs: Sequence[NetworkProgram]) -> dict[str, int]:
    """Return the blocks of P x P that the memories need for networks, by memory.

    Args:
        programs: of networks with the same side.
    """
    return {
        "weight_blocks": max(p.weight_base(len(p.sizes)) for p in programs),
        "activation_blocks": max(p.activation_base(len(p.sizes) - 1) for p in programs),
        "delta_blocks": max(p.delta_base(len(p.sizes)) for p in programs),
        "result_blocks": max(p.result_blocks for p in programs),
    }


def block_rams(programs: Sequence[NetworkProgram]) -> float:
    """Return the block RAMs of the P x P banks of all matrices in both units, if every bank is in block RAM.

    Each matrix memory has P x P banks of 32-bit words, one word per block; a bank takes whole halves of a block RAM.
    Adam's moments, the accumulators and the programs are not counted.

    Args:
        programs: of networks with the same side.
    """
    sizes, side = memory_blocks(programs), programs[0].side
    deltas = sizes["delta_blocks"]
    depths = (
        sizes["weight_blocks"],
        sizes["activation_blocks"] + deltas,
        deltas,
        sizes["result_blocks"],
    )
    return 2 * side**2 * sum(blocks(depth, HALF_RAM_WORDS) for depth in depths) / 2
