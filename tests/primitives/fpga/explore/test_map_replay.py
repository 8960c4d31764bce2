"""MAP's number of sub-trees: doubled up to the batch, while one die holds them."""

from dataclasses import replace
from typing import Any

import pytest

from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.explore.map_replay import (
    CROSSBAR_FLIP_FLOPS,
    CROSSBAR_LUTS,
    MOST_BANKS,
    level_flip_flops,
    level_luts,
    replay_design,
)
from placerl.primitives.fpga.tools import counted

U200 = catalogue.device("u200")
HUGE = replace(U200, luts=10**9, flip_flops=10**9, block_rams=10**9)


def test_pipelines_grow_with_the_batch() -> None:
    banks = [replay_design(size, 2**20, 16, U200).banks for size in (4, 64, 256, 4096)]
    assert banks[0] == 1  # as many samples as levels keep one pipeline busy
    assert banks == sorted(banks)
    assert [replay_design(size, 2**20, 2, HUGE).banks for size in (20, 21, 32, 33, 4096)] == [
        1,
        16,
        32,
        32,
        32,
    ]
    assert replay_design(21, 2**20, 2, HUGE).bound_by == "batch"
    assert replay_design(4096, 2**20, 2, HUGE).bound_by == "MAP's S"
    assert MOST_BANKS == 32


def test_cycles_are_map_s() -> None:
    design = replay_design(4096, 2**20, 16, U200)
    assert design.banks == 4
    assert design.sample_cycles == 4096 / 4 * 16
    assert design.update_cycles == 4096 / 4


@pytest.mark.parametrize(
    ("scarce", "name"),
    [
        ({"luts": 3 * 300_000}, "LUTs"),
        ({"flip_flops": 3 * 70_000}, "flip-flops"),
        ({"block_rams": 0, "ultra_rams": 0}, "block RAMs"),
    ],
)
def test_every_resource_of_a_die_bounds_them(scarce: dict[str, Any], name: str) -> None:
    small = replace(HUGE, **scarce)
    free, bound = (replay_design(4096, 2**20, 16, device) for device in (HUGE, small))
    assert bound.banks < free.banks == 32
    assert bound.bound_by == name
    assert bound.banks == 1 or bound.luts <= small.luts // small.super_logic_regions
    assert bound.banks == 1 or bound.flip_flops <= small.flip_flops // small.super_logic_regions


def test_a_level_takes_what_yosys_counted() -> None:
    rows = counted.committed()
    for fanout, levels in ((2, 15), (16, 5)):
        row = rows[f"replay-pipeline fanout={fanout} levels={levels}"].resources
        assert levels * level_luts(fanout) == pytest.approx(row.luts, rel=0.01)
        assert levels * level_flip_flops(fanout) == pytest.approx(row.flip_flops, rel=0.01)


def test_a_lane_and_a_bank_take_what_yosys_counted() -> None:
    rows = counted.committed()
    halves = [rows[f"{half} banks=32 fanout=2 levels=15"].resources for half in ("lane-route", "bank-queues")]
    assert sum(half.luts for half in halves) / 32 == pytest.approx(CROSSBAR_LUTS, rel=0.01)
    assert sum(half.flip_flops for half in halves) / 32 == pytest.approx(CROSSBAR_FLIP_FLOPS, rel=0.01)
