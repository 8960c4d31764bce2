"""MAP's architecture exploration: pipelines of a learner and of the replay within a device (MAP VI-A2).

The learner: DP pipelines of n = 3 L stages, each of a sub-batch PI = B / DP; stage i has r_i f multiply-adders, r_i in
proportion to its operations. The replay: S sub-tree pipelines in one die.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from primitives.fpga.cycles.networks import Layer
from primitives.fpga.devices.catalogue import Device
from primitives.fpga.gemm.plan import blocks


@dataclass(frozen=True)
class LearnerDesign:
    """A learner of DP pipelines.

    Attributes:
        pipelines: DP. sub_batch: PI. factor: f.
        multipliers: of all pipelines and the weight update.
        pipeline_cycles: (PI + n - 1) x T_max; update_cycles: T_WU. Both `modelled`.
    """

    pipelines: int
    sub_batch: int
    factor: int
    multipliers: int
    pipeline_cycles: int
    update_cycles: int

    @property
    def cycles(self) -> int:
        """Of one gradient step."""
        return self.pipeline_cycles + self.update_cycles


def stage_operations(layers: Sequence[Layer]) -> list[int]:
    """Multiply-adds of a data point in each tensor unit: FW of every layer, BW of all but the first, WA of every layer.

    MAP's n = 3 L stages are these and the loss, which is no product and has no part in the ratios r_i.
    """
    macs = [layer.weights * layer.out_size[0] * layer.out_size[1] for layer in layers]
    return [*macs, *macs[1:], *macs]


def learner_design(
    layers: Sequence[Layer], batch: int, pipelines: int, factor: int, banks: int
) -> LearnerDesign:
    """The learner with DP and f given; `banks`: weights that the update reads a cycle for each unit of f (r_WU)."""
    operations = stage_operations(layers)
    smallest = min(operations)
    multipliers = [max(1, round(work / smallest)) * factor for work in operations]
    slowest = max(blocks(work, count) for work, count in zip(operations, multipliers, strict=True))
    sub_batch = blocks(batch, pipelines)
    update = sum(blocks(pipelines * layer.weights, banks * factor) for layer in layers)
    return LearnerDesign(
        pipelines,
        sub_batch,
        factor,
        pipelines * sum(multipliers) + banks * factor,
        (sub_batch + 3 * len(layers) - 1) * slowest,
        update,
    )


def learner_designs(
    layers: Sequence[Layer], batch: int, device: Device, *, dsps_per_multiplier: int = 4, banks: int = 1
) -> list[LearnerDesign]:
    """The best DP and PI for each f that fits the device's other dies' DSPs, the fastest first.

    MAP keeps one die for the replay where there are several. Empty where not even f = 1 fits.
    """
    dies = device.super_logic_regions
    available = device.dsps * (dies - 1) // dies if dies > 1 else device.dsps
    designs: list[LearnerDesign] = []
    factor = 1
    while True:
        candidates = [
            design
            for pipelines in range(1, batch + 1)
            if (design := learner_design(layers, batch, pipelines, factor, banks)).multipliers
            * dsps_per_multiplier
            <= available
        ]
        if not candidates:
            return sorted(designs, key=lambda design: design.cycles)
        designs.append(min(candidates, key=lambda design: design.cycles))
        factor += 1


@dataclass(frozen=True)
class ReplayDesign:
    """S sub-tree pipelines: cycles of a batch of samples and one of updates, `modelled` (MAP VI-A2)."""

    banks: int
    sample_cycles: float
    update_cycles: float
    memory_bits: int


def replay_design(
    batch: int, capacity: int, fanout: int, device: Device, *, priority_bits: int = 32
) -> ReplayDesign:
    """The number of sub-trees for a batch: 1 up to as many samples as levels, then doubled while one die holds them.

    Memory: every level of every sub-tree in blocks of its own, one word of `fanout` children wide.
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

    available = (device.block_rams + device.ultra_rams * 8) // device.super_logic_regions
    banks = 1
    while batch > levels and banks * 2 <= batch and memory_blocks(banks * 2) <= available:
        banks *= 2
    return ReplayDesign(
        banks,
        batch / banks * fanout,
        batch / banks,
        memory_blocks(banks) * device.block_ram_bits,
    )
