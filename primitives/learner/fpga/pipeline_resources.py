"""The resources that MAP's learner pipelines need: DSPs, look-up tables, flip-flops and block RAMs, `modelled`.

The counts per lane (a multiplier of a unit) and per neuron are those of the block `learner-pipeline` as Yosys
synthesised it (`primitives/fpga/tools/counted.json`, 5-8-8-1, DP = 2); the tests compare the sum with that count. A
unit holds its input and output vectors in registers, and passes them on in queues of two, so that wide layers need
many flip-flops even with few lanes. Memories are counted in blocks of 36 Kbit (72 bits x 512 words); those of at most
64 words are look-up tables, which are included in the count per lane.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from placerl.primitives.fpga.devices.catalogue import FpgaDevice
from placerl.primitives.fpga.learner_pipeline.layer_shape import FORMAT, LayerShape

MULTIPLIER_DSPS = 4  # per 32 x 32 bit product, as Yosys maps it on UltraScale+
ADAM_DSPS, ADAM_LUTS, ADAM_FLIP_FLOPS = 14, 6_750, 21_025
"""Resources per lane of a layer's update, which computes seven float32 products of two DSPs each; the block `adam-unit`
alone takes fewer look-up tables, 6,245.
"""
LANE_LUTS, LANE_FLIP_FLOPS = 330, 130
NEURON_LUTS = 27
"""Look-up tables per input of a layer's unit: its share of the multiplexer and of the queue for the gradients."""
QUEUE_FLIP_FLOPS = 4 * FORMAT.bits
"""Flip-flops per output of a layer's unit: two queues of two words each, to the next unit and to the gradients."""
PART_LUTS, PART_FLIP_FLOPS = 22, 64
"""Resources per lane of a layer that updates its words in parts: a third of a look-up table per bit of a pipeline's
sum, which a multiplexer selects, and the new weights of network and target until the word is complete."""
SUM_BITS, MOMENT_BITS = 64, 96
"""Bits per weight: of a gradient sum in each pipeline, and of the weight and its moments in the update (float32)."""
BLOCK_BITS, BLOCK_WORDS, LARGEST_LUT_RAM = 72, 512, 64
ULTRA_RAM_BLOCKS = 8  # 288 Kbit
_MANY = 10**12
NAMES = {"dsps": "DSPs", "luts": "LUTs", "flip_flops": "flip-flops", "block_rams": "block RAMs"}
"""The resources as readers see them, by the names of the fields of `PipelineResources`."""


@dataclass(frozen=True)
class PipelineResources:
    """The numbers of DSPs, look-up tables, flip-flops and block RAMs of a design or of a device."""

    dsps: int
    luts: int
    flip_flops: int
    block_rams: int

    def fits(self, limit: "PipelineResources") -> bool:
        """Return whether no resource exceeds that of `limit`, the resources of a device."""
        most = vars(limit)
        return all(used <= most[name] for name, used in vars(self).items())

    def lacking(self, limit: "PipelineResources") -> str:
        """Return of which resources the design needs more than those of `limit`, and how many, as text.

        Such as "2,000 DSPs of 1,000"; empty if it fits.
        """
        over = [name for name, used in vars(self).items() if used > vars(limit)[name]]
        return " and ".join(f"{vars(self)[name]:,} {NAMES[name]} of {vars(limit)[name]:,}" for name in over)

    def scarcest(self, limit: "PipelineResources") -> str:
        """Return the name of the resource of which the design uses the largest fraction of `limit`, such as "dsps"."""
        return max(vars(self), key=lambda name: vars(self)[name] / vars(limit)[name])


def available(device: FpgaDevice) -> PipelineResources:
    """Return the resources (DSPs, look-up tables, ...) of an FPGA that the learner may use.

    On a device with several dies, MAP reserves one of them for the replay (VI-A2, Table VI).
    """
    dies = device.super_logic_regions
    rams = device.block_rams * device.block_ram_bits // (BLOCK_BITS * BLOCK_WORDS)
    whole = (device.dsps, device.luts, device.flip_flops, rams + ULTRA_RAM_BLOCKS * device.ultra_rams)
    return PipelineResources(*(count * (dies - 1) // dies if dies > 1 else count for count in whole))


def dsps_alone(device: FpgaDevice) -> PipelineResources:
    """Return the number of DSPs that the learner may use on a device, with practically no limit on other resources.

    Use it for hardware of which only the number of DSPs per unit is known.
    """
    return replace(available(device), luts=_MANY, flip_flops=_MANY, block_rams=_MANY)


def taken(
    forward: Sequence[LayerShape],
    backward: Sequence[LayerShape],
    gradient: Sequence[LayerShape],
    updated: Sequence[LayerShape],
    pipelines: int,
) -> PipelineResources:
    """Return the resources that a design needs.

    Args:
        forward, backward, gradient: the layers for which a pipeline has units of the forward pass (also of target
            networks), of the backward pass, and of the weights' gradients.
        updated: the layers whose weights are updated, once for all pipelines.
    """
    units = (*forward, *backward, *gradient)
    lanes, adam = sum(unit.lanes for unit in units), sum(layer.updates for layer in updated)
    divided = sum(layer.lanes for layer in updated if layer.parts > 1)
    registers = FORMAT.bits * sum(unit.inputs + unit.outputs for unit in units)
    queues = QUEUE_FLIP_FLOPS * (sum(u.outputs for u in forward) + sum(u.inputs for u in backward))
    inputs = sum(unit.inputs for unit in (*forward, *gradient)) + sum(unit.outputs for unit in backward)
    memories = sum(_blocks(unit.word_bits, unit.words) for unit in (*forward, *backward))
    memories += sum(_blocks(unit.lanes * SUM_BITS, unit.words) for unit in gradient)
    return PipelineResources(
        dsps=pipelines * lanes * MULTIPLIER_DSPS + adam * ADAM_DSPS,
        luts=pipelines * (lanes * LANE_LUTS + inputs * NEURON_LUTS + divided * PART_LUTS) + adam * ADAM_LUTS,
        flip_flops=pipelines * (lanes * LANE_FLIP_FLOPS + registers + queues)
        + divided * PART_FLIP_FLOPS
        + adam * ADAM_FLIP_FLOPS,
        block_rams=pipelines * memories
        + sum(_blocks(layer.updates * MOMENT_BITS, layer.update_words) for layer in updated),
    )


def _blocks(width: int, words: int) -> int:
    """Return the block RAMs of a memory with words of `width` bits."""
    return 0 if words <= LARGEST_LUT_RAM else ceil(width / BLOCK_BITS) * ceil(words / BLOCK_WORDS)
