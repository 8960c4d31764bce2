"""Cycles of products by the timer, kept on disk."""

from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives import disk_cache
from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.cycles import gemm, layout
from placerl.primitives.fpga.cycles.simulated_products import SimulatedProducts
from placerl.primitives.fpga.gemm.plan import DATAFLOWS, GemmShape

SHAPES = (GemmShape(5, 3, 7), GemmShape(2, 9, 1))


@pytest.mark.parametrize("kind", [{}, {"block_load": True}, {"layout": "plain"}])
def test_products_take_what_the_closed_forms_say(
    kind: dict[str, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(disk_cache.CACHE_VARIABLE, str(tmp_path))
    products = SimulatedProducts(side=2, engine="interpreted", **kind)
    products.simulate((shape, dataflow) for shape in SHAPES for dataflow in DATAFLOWS)
    # What is known is not simulated again, not even by another process.
    monkeypatch.setattr(simulation, "interpreted", lambda design: pytest.fail("simulated again"))
    again = SimulatedProducts(side=2, engine="interpreted", **kind)
    for shape in SHAPES:
        for dataflow in DATAFLOWS:
            stalls = layout.plain_stalls(shape, side=2, dataflow=dataflow) if "layout" in kind else 0
            core = gemm.core_cycles(shape, side=2, dataflow=dataflow, block_load="block_load" in kind)
            for one in (products, again):
                assert one.product_cycles(shape, side=2, dataflow=dataflow) == core + stalls
                assert one.stalls(shape, dataflow) == stalls


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="engine: found 'fast'"):
        SimulatedProducts(side=2, engine="fast")
    with pytest.raises(ValueError, match="side: found 3; allowed: 2"):
        SimulatedProducts(side=2).product_cycles(SHAPES[0], side=3, dataflow="NS")
