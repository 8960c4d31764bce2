"""What a learner of MAP's pipelines takes of a device, compared with what Yosys counted."""

import pytest

from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.learner_pipeline.layer_shape import LayerShape
from placerl.primitives.fpga.tools import counted
from placerl.primitives.learner.fpga import pipeline_resources
from placerl.primitives.learner.fpga.pipeline_resources import PipelineResources, available, taken

COUNTED = "learner-pipeline inputs=5 hidden=8 outputs=1 lanes=8 pipelines=2"
BLOCK = (LayerShape(5, 8, 8), LayerShape(8, 8, 8), LayerShape(8, 1, 1))
"""The counted block: 5-8-8-1, DP = 2, without target networks."""


def test_the_sum_is_that_of_the_synthesised_block() -> None:
    row = counted.committed()[COUNTED].resources
    found = taken(BLOCK, BLOCK[1:], BLOCK, BLOCK, 2)
    assert found.dsps == row.dsps == 582
    assert found.luts == pytest.approx(row.luts, rel=0.02)
    assert found.flip_flops == pytest.approx(row.flip_flops, rel=0.02)
    assert found.block_rams == row.block_rams == 0, "memories this small are look-up tables"


def test_a_multiplier_and_an_adam_lane_are_those_that_yosys_counted() -> None:
    rows = counted.committed()
    assert rows["processing-element width=32"].resources.dsps == pipeline_resources.MULTIPLIER_DSPS
    adam = rows["adam-unit"].resources
    assert adam.dsps == pipeline_resources.ADAM_DSPS
    assert adam.luts <= pipeline_resources.ADAM_LUTS
    for update in ("update_0", "update_1"):  # of 8 lanes
        assert rows[COUNTED].resources_of(update).luts / 8 == pytest.approx(
            pipeline_resources.ADAM_LUTS, rel=0.001
        )
    assert adam.flip_flops <= pipeline_resources.ADAM_FLIP_FLOPS <= 1.05 * adam.flip_flops


def test_units_are_counted_once_per_pipeline_and_updates_once() -> None:
    one, two, three = (taken(BLOCK, BLOCK[1:], BLOCK, BLOCK, pipelines) for pipelines in (1, 2, 3))
    for name in ("dsps", "luts", "flip_flops"):
        first, second, third = (getattr(made, name) for made in (one, two, three))
        assert third - second == second - first > 0
    assert one.dsps == 43 * 4 + 17 * 14


def test_words_in_parts_need_fewer_lanes_of_adam_and_what_selects_the_parts() -> None:
    whole, parts = LayerShape(8, 8, 8), LayerShape(8, 8, 8, 2)
    one, other = (taken([], [], [], [layer], 3) for layer in (whole, parts))
    assert one.dsps - other.dsps == 6 * pipeline_resources.ADAM_DSPS
    assert one.luts - other.luts == 6 * pipeline_resources.ADAM_LUTS - 3 * 8 * pipeline_resources.PART_LUTS
    assert other.flip_flops == 2 * pipeline_resources.ADAM_FLIP_FLOPS + 8 * pipeline_resources.PART_FLIP_FLOPS


def test_large_memories_are_counted_in_blocks_of_72_bits_by_512_words() -> None:
    layer = LayerShape(255, 8, 2)  # 4 blocks of 256 words: 1,024 words of 64 bits
    assert layer.words == 1024
    assert taken([layer], [], [], [], 1).block_rams == 2
    assert taken([], [], [layer], [], 3).block_rams == 3 * 2 * 2, "sums of 64 bits: 128 of a word"
    assert taken([], [], [], [layer], 3).block_rams == 3 * 2, "192 bits of weights and moments, once"
    assert taken([], [], [], [LayerShape(255, 8, 2, 1)], 3).block_rams == 2 * 4, "96 bits of twice as many"


def test_a_die_is_left_for_the_replay() -> None:
    u200 = catalogue.device("u200")
    assert available(u200) == PipelineResources(4560, 788_160, 1_576_320, (2160 + 8 * 960) * 2 // 3)
    assert available(catalogue.device("agf014")).dsps == 4510, "one die, which both share"


def test_the_scarcest_is_the_largest_share_and_every_number_bounds() -> None:
    limit = PipelineResources(10, 100, 100, 10)
    assert PipelineResources(9, 50, 99, 1).scarcest(limit) == "flip_flops"
    assert PipelineResources(10, 100, 100, 10).fits(limit)
    for name in vars(limit):
        over = vars(limit) | {name: vars(limit)[name] + 1}
        assert not PipelineResources(**over).fits(limit), name
