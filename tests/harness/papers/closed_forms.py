"""The closed forms, which hold for the RTL to the cycle (`tests/primitives/fpga`), in the place of its simulation."""

from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cycles import gemm, layout, load_balancing, simulated_products
from placerl.primitives.fpga.export import toolchain
from placerl.primitives.fpga.gemm.plan import GemmShape
from placerl.primitives.fpga.pair import simulation


class ClosedForms:
    """`SimulatedProducts` without a simulation."""

    def __init__(self, *, side: int, block_load: bool = False, layout: str = "blocked"):
        self.block_load, self.layout, self.side = block_load, layout, side

    def simulate(self, products: Any) -> None:
        """Nothing to do."""

    def is_known(self, product: Any) -> bool:
        """Nothing is simulated."""
        return True

    def product_cycles(self, shape: GemmShape, *, side: int, dataflow: str) -> int:
        core = gemm.core_cycles(shape, side=side, dataflow=dataflow, block_load=self.block_load)
        return core + self.stalls(shape, dataflow)

    def stalls(self, shape: GemmShape, dataflow: str) -> int:
        if self.layout == "blocked":
            return 0
        return layout.plain_stalls(shape, side=self.side, dataflow=dataflow)


class ClosedPair:
    """`SimulatedPair` without a simulation."""

    def __init__(self, *, side: int):
        self.side = side

    def training_cycles(self, *networks: Any, **arguments: Any) -> int:
        return load_balancing.training_cycles(*networks, side=self.side, pair=True, **arguments)


@pytest.fixture
def closed_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_products, "SimulatedProducts", ClosedForms)
    monkeypatch.setattr(simulation, "SimulatedPair", ClosedPair)
    monkeypatch.setattr(toolchain, "unavailable_reason", str)
