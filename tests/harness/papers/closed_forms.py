"""The closed forms, which hold for the RTL to the cycle (`tests/primitives/fpga`), in the place of its simulation."""

from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cycles import (
    gemm,
    gemm_float32,
    layout,
    load_balancing,
    networks,
    simulated_products,
)
from placerl.primitives.fpga.cycles.blocks import pair
from placerl.primitives.fpga.gemm.arithmetic import FLOAT32
from placerl.primitives.fpga.gemm.plan import GemmShape


class ClosedForms:
    """`SimulatedProducts` without a simulation."""

    def __init__(
        self, *, side: int, block_load: bool = False, layout: str = "blocked", float32: bool = False
    ):
        self.block_load, self.layout, self.side, self.float32 = block_load, layout, side, float32

    def prepare(self, products: Any) -> None:
        """Nothing to do."""

    def product_cycles(self, shape: GemmShape, *, side: int, dataflow: str) -> int:
        core = (
            gemm_float32.core_cycles(shape, side=side, dataflow=dataflow)
            if self.float32
            else gemm.core_cycles(shape, side=side, dataflow=dataflow, block_load=self.block_load)
        )
        return core + self.stalls(shape, dataflow)

    def stalls(self, shape: GemmShape, dataflow: str) -> int:
        if self.layout == "blocked":
            return 0
        if self.float32:
            return layout.standing_stalls(shape, side=self.side, dataflow=dataflow, arithmetic=FLOAT32)
        return layout.plain_stalls(shape, side=self.side, dataflow=dataflow)


def training_cycles(parameters: list[int], size: list[Any]) -> int:
    """Return the cycles of a training on two units."""
    policy, value, policy_updates, value_updates, minibatch, balanced = size
    return load_balancing.training_cycles(
        networks.mlp(*policy),
        networks.mlp(*value),
        side=parameters[0],
        policy_updates=policy_updates,
        value_updates=value_updates,
        minibatch=minibatch,
        balanced=balanced,
        pair=True,
    )


@pytest.fixture
def closed_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_products, "SimulatedProducts", ClosedForms)
    monkeypatch.setattr(pair, "BLOCK", training_cycles)
