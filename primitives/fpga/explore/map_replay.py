"""MAP's exploration of replay architectures: how many sub-tree pipelines, S, fit one die (MAP VI-A2).

The exploration of the learner is in `primitives.learner.fpga.pipeline`.
"""

from dataclasses import dataclass

from placerl.primitives.fpga.devices.catalogue import FpgaDevice
from placerl.primitives.fpga.gemm.plan import blocks

MOST_BANKS = 32  # MAP Table VI: 1 to 32


def level_luts(fanout: int) -> int:
    """Return the look-up tables of one level of a replay pipeline, for `fanout` children per node.

    They lie on the line through Yosys' counts of `replay-pipeline` for fanouts of 2 (18,867 in 15 levels)
    and 16 (62,946 in 5).
    """
    return round(1258 + (fanout - 2) * 809.4)


def level_flip_flops(fanout: int) -> int:
    """Return the flip-flops of one level of a replay pipeline, for `fanout` children per node.

    They lie on the line through Yosys' counts of `replay-pipeline` for fanouts of 2 (15,053 in 15 levels)
    and 16 (34,351 in 5).
    """
    return round(1004 + (fanout - 2) * 419)


CROSSBAR_LUTS, CROSSBAR_FLIP_FLOPS = 271, 14
"""Look-up tables and flip-flops of the crossbar for each pair of a lane (input for requests) and a bank (sub-tree).

These are the counts of `lane-route` and `bank-queues` at S = 32, divided by 32.
"""


@dataclass(frozen=True)
class ReplayDesign:
    """A replay memory of S sub-trees, each with a pipeline: its cycles, from formulas, and its resources (MAP VI-A2).

    Attributes:
        banks: number of sub-trees, S.
        sample_cycles, update_cycles: cycles of a batch of samples, and of a batch of updates.
        memory_bits: bits of the block RAMs that hold the sums.
        luts, flip_flops: look-up tables and flip-flops of the pipelines and the crossbar.
        bound_by: the limit that allows no larger S: "batch" (the batch size), "block RAMs", "LUTs", "flip-flops" or
            "MAP's S" (the largest that MAP considers).
    """

    banks: int
    sample_cycles: float
    update_cycles: float
    memory_bits: int
    luts: int
    flip_flops: int
    bound_by: str


def replay_design(
    batch: int, capacity: int, fanout: int, device: FpgaDevice, *, priority_bits: int = 32
) -> ReplayDesign:
    """Return the design with the most sub-trees: their number S is doubled from 1 while one die holds them.

    S is at most the batch size. Every level of every sub-tree has its own block RAMs, whose words hold the sums of the
    `fanout` children of a node.

    Args:
        capacity: number of leaves, which is the number of transitions that the replay holds.
        device: the FPGA, of which one die is used.
        priority_bits: width of a sum.
    """
    levels, size = 1, fanout
    while size < capacity:
        levels, size = levels + 1, size * fanout

    def memory_blocks(banks: int) -> int:
        total, words = 0, 1
        for _ in range(levels):
            held = blocks(words, banks)
            total += banks * blocks(max(1, held) * fanout * priority_bits, device.block_ram_bits)
            words *= fanout
        return total

    def bank_levels(banks: int) -> int:
        count = 1
        while banks * fanout**count < capacity:
            count += 1
        return count

    def logic(banks: int, of_level: int, of_pair: int) -> int:
        return banks * bank_levels(banks) * of_level + (of_pair * banks**2 if banks > 1 else 0)

    def luts(banks: int) -> int:
        return logic(banks, level_luts(fanout), CROSSBAR_LUTS)

    def flip_flops(banks: int) -> int:
        return logic(banks, level_flip_flops(fanout), CROSSBAR_FLIP_FLOPS)

    dies = device.super_logic_regions
    needs = {
        "block RAMs": (memory_blocks, (device.block_rams + device.ultra_rams * 8) // dies),
        "LUTs": (luts, device.luts // dies),
        "flip-flops": (flip_flops, device.flip_flops // dies),
        "MAP's S": (lambda banks: banks, MOST_BANKS),
    }
    banks, bound_by = 1, "batch"
    while batch > levels and banks * 2 <= batch:
        lacking = [name for name, (taken, most) in needs.items() if taken(banks * 2) > most]
        if lacking:
            bound_by = lacking[0]
            break
        banks *= 2
    return ReplayDesign(
        banks,
        batch / banks * fanout,
        batch / banks,
        memory_blocks(banks) * device.block_ram_bits,
        luts(banks),
        flip_flops(banks),
        bound_by,
    )
