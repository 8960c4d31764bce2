"""MAP's exploration of replay architectures: how many sub-tree pipelines, S, fit one die (MAP VI-A2).

The exploration of the learner is in `primitives.learner.fpga.pipeline`.
"""

from dataclasses import dataclass

from placerl.primitives.fpga.devices.catalogue import FpgaDevice
from placerl.primitives.fpga.gemm.plan import blocks

MOST_BANKS = 32  # MAP Table VI: 1 to 32
TAG_BITS = 8
"""Bits of a request's tag (`replay_pipeline.layout`), by which the paths of samples are kept (MAP IV-D4)."""


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
        memory_bits: bits of the block RAMs that hold `memories`.
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


def _levels(capacity: int, fanout: int, banks: int) -> int:
    """Return the levels of each of S sub-trees that together hold `capacity` leaves."""
    levels = 1
    while banks * fanout**levels < capacity:
        levels += 1
    return levels


def memories(banks: int, capacity: int, fanout: int, *, priority_bits: int = 32) -> list[tuple[int, int]]:
    """Return the bits of a word and the number of words of every memory of S sub-trees, as the RTL has them.

    Each level of a sub-tree has a memory whose words hold the sums of the `fanout` children of a node. A sub-tree uses
    as many leaves as the capacity needs, and has the nodes above these alone. Its first stage has a copy of the leaves
    in use, and the path of the last sample with each tag; with several sub-trees a lane keeps the sub-tree of that
    sample. The crossbar's queues are in look-up tables, and counted there.
    """
    leaves, levels = -(-capacity // banks), _levels(capacity, fanout, banks)
    sub_tree = []
    for level in range(levels):
        below_child = fanout ** (levels - level - 1)
        bits = priority_bits + _address_bits(min(below_child, leaves))
        sub_tree.append((fanout * bits, -(-leaves // (fanout * below_child))))
    sub_tree += [(priority_bits, leaves), (levels * _address_bits(fanout), 1 << TAG_BITS)]
    lanes = [(_address_bits(banks), 1 << TAG_BITS)] * banks if banks > 1 else []
    return sub_tree * banks + lanes


def _address_bits(words: int) -> int:
    """Return the bits that tell so many words apart: the logarithm to base 2, rounded up."""
    return (words - 1).bit_length()


def _needs(
    banks: int, capacity: int, fanout: int, *, priority_bits: int, block_ram_bits: int
) -> dict[str, int]:
    """Return what S sub-trees take, by what limits it: block RAMs, look-up tables, flip-flops, and S itself.

    Every memory has its own block RAMs.
    """
    block_rams = sum(
        blocks(width * words, block_ram_bits)
        for width, words in memories(banks, capacity, fanout, priority_bits=priority_bits)
    )
    levels = banks * _levels(capacity, fanout, banks)
    pairs = banks**2 if banks > 1 else 0  # of a lane and a bank
    return {
        "block RAMs": block_rams,
        "LUTs": levels * level_luts(fanout) + pairs * CROSSBAR_LUTS,
        "flip-flops": levels * level_flip_flops(fanout) + pairs * CROSSBAR_FLIP_FLOPS,
        "MAP's S": banks,
    }


def replay_design(
    batch: int, capacity: int, fanout: int, device: FpgaDevice, *, priority_bits: int = 32
) -> ReplayDesign:
    """Return the design with the most sub-trees that one die holds: their number S is a power of two.

    S is at most the batch size, and 1 if a batch has no more samples than the tree has levels: one pipeline then works
    on all of them at once. Every S up to there is tried: where one does not fit, twice as many sub-trees may, as they
    may have fewer levels.

    Args:
        capacity: number of leaves, which is the number of transitions that the replay holds.
        device: the FPGA, of which one die is used.
        priority_bits: width of a sum.
    """
    dies = device.super_logic_regions
    limits = {
        "block RAMs": (device.block_rams + device.ultra_rams * 8) // dies,
        "LUTs": device.luts // dies,
        "flip-flops": device.flip_flops // dies,
        "MAP's S": MOST_BANKS,
    }
    widths = {"priority_bits": priority_bits, "block_ram_bits": device.block_ram_bits}
    most = min(batch, 2 * MOST_BANKS) if batch > _levels(capacity, fanout, 1) else 1
    lacking: dict[int, list[str]] = {}
    for banks in (2**power for power in range(most.bit_length())):
        needs = _needs(banks, capacity, fanout, **widths)
        lacking[banks] = [name for name, limit in limits.items() if needs[name] > limit]
    banks = max((banks for banks, names in lacking.items() if not names), default=1)
    bound_by = lacking[2 * banks][0] if 2 * banks in lacking else "batch"
    needs = _needs(banks, capacity, fanout, **widths)
    return ReplayDesign(
        banks,
        sample_cycles=batch / banks * fanout,
        update_cycles=batch / banks,
        memory_bits=needs["block RAMs"] * device.block_ram_bits,
        luts=needs["LUTs"],
        flip_flops=needs["flip-flops"],
        bound_by=bound_by,
    )
