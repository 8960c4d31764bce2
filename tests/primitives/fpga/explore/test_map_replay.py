"""MAP's number of sub-trees: the most up to the batch that one die holds, with the memories that the RTL has."""

from collections import Counter
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
    memories,
    replay_design,
)
from placerl.primitives.fpga.tools import counted

U200 = catalogue.device("u200")
HUGE = replace(U200, luts=10**9, flip_flops=10**9, block_rams=10**9)


def test_pipelines_grow_with_the_batch() -> None:
    banks = [replay_design(size, 2**16, 16, U200).banks for size in (4, 5, 64, 4096)]
    assert banks == [1, 4, 4, 4]  # as many samples as levels keep one pipeline busy
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
    design = replay_design(4096, 2**16, 16, U200)
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


def test_leaves_that_the_capacity_does_not_need_take_no_memory() -> None:
    """However many sub-trees: no level of theirs has more words than the leaves in use need."""
    counts = (1, 2, 4, 8, 16, 32)
    for capacity in (2**20, 1_000_000):
        bits = [sum(width * words for width, words in memories(banks, capacity, 16)) for banks in counts]
        # The leaves and their copy, with the sums above.
        assert bits[0] == pytest.approx(2 * 32 * capacity, rel=0.1)
        assert bits == pytest.approx([bits[0]] * len(bits), rel=0.01)
        design = replay_design(4096, capacity, 16, U200)
        assert (design.banks, design.bound_by) == (4, "LUTs")
        assert bits[2] <= design.memory_bits <= 1.02 * bits[2]  # whole block RAMs
    assert [replay_design(size, 1_000_000, 16, HUGE).banks for size in (5, 6, 16, 4096)] == [1, 4, 16, 32]


@pytest.mark.parametrize(
    ("banks", "capacity", "fanout"),
    [(1, 16, 4), (1, 7, 3), (2, 8, 2), (4, 20, 4), (1, 21, 4), (1, 1, 2), (2, 45, 4), (4, 1000, 16)],
)
def test_the_memories_are_those_of_the_rtl(
    banks: int, capacity: int, fanout: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("amaranth", reason="needs the extra fpga")
    from amaranth.hdl import Fragment

    from placerl.primitives.fpga.export.ram import Ram
    from placerl.primitives.fpga.replay_pipeline import (
        BankedLayout,
        BankedPipeline,
        PipelineLayout,
        ReplayPipeline,
    )

    declared: Counter[tuple[int, int]] = Counter()
    elaborate = Ram.elaborate

    def recorded(ram: Ram, platform: Any) -> Any:
        declared[ram.width, ram.depth] += 1
        return elaborate(ram, platform)

    monkeypatch.setattr(Ram, "elaborate", recorded)
    levels = next(number for number in range(1, 9) if banks * fanout**number >= capacity)
    tree = PipelineLayout(fanout, levels, leaf_bits=32, leaves=-(-capacity // banks))
    design: Any = ReplayPipeline(tree)
    if banks > 1:
        design = BankedPipeline(BankedLayout(banks, tree), remembers=True)
    Fragment.get(design, None)
    assert declared == Counter(memories(banks, capacity, fanout))


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
