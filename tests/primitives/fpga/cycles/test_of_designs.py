"""The cycles of exported designs against the papers' formulas: explained, and their reasons described."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cycles import of_designs
from placerl.primitives.fpga.cycles.difference_table import CycleDifference
from placerl.primitives.fpga.cycles.replay_timer import ReplayTimer
from placerl.primitives.fpga.tools.blocks import BLOCKS

pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")


def rows(name: str, **given: str) -> list[CycleDifference]:
    block = BLOCKS[name]
    assert block.cycles is not None
    return list(block.cycles(block.make(**block.parameters(given))))


@pytest.mark.parametrize(
    ("name", "given"),
    [
        *((name, {}) for name, block in BLOCKS.items() if block.cycles),
        ("gemm-core", {"side": "4", "float32": "true"}),
    ],
)
def test_every_difference_is_explained_by_reasons_that_are_described(
    name: str, given: dict[str, str]
) -> None:
    found = rows(name, **given)
    assert found
    for row in found:
        assert row.explained, row
        assert row.reasons.keys() <= of_designs.reasons(row.block).keys()


def test_samples_on_several_sub_trees_come_after_updates() -> None:
    block = BLOCKS["banked-replay-pipeline"]
    design = block.make(**block.parameters({}))
    banks, tree = design.layout.banks, design.layout.bank
    to = np.random.default_rng(0).integers(0, banks, of_designs.REQUESTS)
    lanes = np.arange(of_designs.REQUESTS) % banks
    first = ReplayTimer(banks, tree.levels, tree.fanout).cycles(to, lanes, writes=False)  # after a reset
    sample, _ = of_designs.of_replay(design)
    assert sample.simulated_cycles == first + sample.reasons["phase change"] == first + 1


def test_what_fills_and_drains_is_described_for_each_block() -> None:
    named = [rows("gemm-core"), rows("gemm-core", float32="true"), rows("replay-pipeline")]
    texts = [of_designs.reasons(found[0].block)["fill and drain"] for found in named]
    assert [text.partition(" ")[2][:20] for text in texts] == [
        "operand takes 2 P - ",
        "operand reaches the ",
        "formulas assume a fu",
    ]


def test_the_explored_hopper_takes_the_cycles_of_its_rtl() -> None:
    """`test_accelerator` of `map_accelerator` counts them, and two more for a run."""
    (row,) = rows(
        "map-accelerator",
        network="11-256-256-3,14-256-256-1",
        lanes="8/128/2,8/128/1",
        updates="2/4/1,1/4/1",
        fanout="4",
    )
    assert (row.formula_cycles, row.simulated_cycles) == (86_845, 74_575)
    assert row.reasons["drawing"] > 0


def test_float32_and_narrow_pipelines_have_cycles_of_their_own() -> None:
    integers, floats = rows("gemm-core", side="4"), rows("gemm-core", side="4", float32="true")
    assert [row.formula_cycles for row in floats] == [row.formula_cycles for row in integers]
    assert all(
        slow.simulated_cycles > fast.simulated_cycles for slow, fast in zip(floats, integers, strict=True)
    )
    sample, update = rows("replay-pipeline", form="narrow", fanout="4")
    assert sample.formula_cycles == 4 * update.formula_cycles == 4 * of_designs.REQUESTS
    assert rows("banked-replay-pipeline", form="narrow") == []
