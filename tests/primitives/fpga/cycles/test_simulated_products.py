"""Cycles of products: of the closed forms, by the timer and by the committed table."""

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives import disk_cache
from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.cycles import gemm, gemm_float32, layout
from placerl.primitives.fpga.cycles.blocks import gemm as gemm_block
from placerl.primitives.fpga.cycles.blocks import gemm_float32 as gemm_float32_block
from placerl.primitives.fpga.cycles.simulated_products import SimulatedProducts
from placerl.primitives.fpga.cycles.table import committed, parsed
from placerl.primitives.fpga.cycles.timed_block import SIMULATE_VARIABLE
from placerl.primitives.fpga.gemm.arithmetic import FLOAT32
from placerl.primitives.fpga.gemm.plan import DATAFLOWS, GemmShape
from tests.primitives.fpga.interpreter import interpreted

SHAPES = (GemmShape(5, 3, 7), GemmShape(2, 9, 1))
float32_stalls = partial(layout.standing_stalls, arithmetic=FLOAT32)


@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"block_load": True},
        {"layout": "plain"},
        {"float32": True},
        {"float32": True, "layout": "plain"},
    ],
)
def test_products_take_what_the_closed_forms_say(
    kind: dict[str, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(disk_cache.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv(SIMULATE_VARIABLE, "1")
    block = gemm_float32_block.BLOCK if "float32" in kind else gemm_block.BLOCK
    monkeypatch.setattr(block, "_libraries", {})
    monkeypatch.setattr(
        simulation, "built", lambda design: SimpleNamespace(start=lambda: interpreted(design))
    )
    products = SimulatedProducts(side=2, **kind)
    products.prepare((shape, dataflow) for shape in SHAPES for dataflow in DATAFLOWS)
    # What is known is not simulated again, not even by another process.
    monkeypatch.setattr(simulation, "built", lambda design: pytest.fail("simulated again"))
    monkeypatch.setattr(block, "_recorded", {})
    again = SimulatedProducts(side=2, **kind)
    for shape in SHAPES:
        for dataflow in DATAFLOWS:
            stalls = 0
            if "layout" in kind:
                stalled = float32_stalls if "float32" in kind else layout.plain_stalls
                stalls = stalled(shape, side=2, dataflow=dataflow)
            core = (
                gemm_float32.core_cycles(shape, side=2, dataflow=dataflow)
                if "float32" in kind
                else gemm.core_cycles(shape, side=2, dataflow=dataflow, block_load="block_load" in kind)
            )
            for one in (products, again):
                assert one.product_cycles(shape, side=2, dataflow=dataflow) == core + stalls
                assert one.stalls(shape, dataflow) == stalls


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="side: found 3; allowed: 2"):
        SimulatedProducts(side=2).product_cycles(SHAPES[0], side=3, dataflow="NS")


@pytest.mark.parametrize("layout_name", ["blocked", "plain"])
def test_every_product_of_the_table_takes_what_the_closed_forms_say(layout_name: str) -> None:
    checked = 0
    for design, found in committed().results.items():
        name, parameters = parsed(design)
        if name != "gemm" or parameters[2] != layout_name:
            continue
        side, block_load, _ = parameters
        for size, (cycles, stalls) in found.items():
            *shape, dataflow = json.loads(size)
            options = {"side": side, "dataflow": dataflow}
            expected = layout.plain_stalls(GemmShape(*shape), **options) if layout_name == "plain" else 0
            core = gemm.core_cycles(GemmShape(*shape), block_load=block_load, **options)
            assert (cycles, stalls) == (core + expected, expected), (design, size)
            checked += 1
    assert checked > 50


@pytest.mark.parametrize("layout_name", ["blocked", "plain"])
def test_every_float32_product_of_the_table_takes_what_the_closed_forms_say(layout_name: str) -> None:
    checked = 0
    for design, found in committed().results.items():
        name, parameters = parsed(design)
        side, *others = parameters
        if name != "gemm_float32" or others != ([] if layout_name == "blocked" else [layout_name]):
            continue
        for size, (cycles, stalls) in found.items():
            *shape, dataflow = json.loads(size)
            options = {"side": side, "dataflow": dataflow}
            expected = float32_stalls(GemmShape(*shape), **options) if others else 0
            core = gemm_float32.core_cycles(GemmShape(*shape), **options)
            assert (cycles, stalls) == (core + expected, expected), (design, size)
            checked += 1
    assert checked > 50
