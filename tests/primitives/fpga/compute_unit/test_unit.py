"""The compute unit: products through its memories, transposed reads from both layouts, and what they cost."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.compute_unit.simulation import SimulatedUnit
from placerl.primitives.fpga.cycles import gemm as model
from placerl.primitives.fpga.cycles.layout import plain_stalls
from placerl.primitives.fpga.gemm.arithmetic import INTEGER
from placerl.primitives.fpga.gemm.plan import DATAFLOWS, GemmShape
from tests.primitives.fpga.interpreter import interpreted

sizes = st.integers(1, 8)


@cache
def unit(layout: str, configurable: bool = False, block_load: bool = False) -> SimulatedUnit:
    return SimulatedUnit(
        side=2,
        width=8,
        accumulator_width=24,
        accumulator_depth=8,
        operand_blocks=16,
        result_blocks=16,
        layout=layout,
        configurable=configurable,
        block_load=block_load,
        start=interpreted,
    )


@pytest.mark.parametrize("layout", ["blocked", "plain"])
@settings(max_examples=4, deadline=None)
@given(a=sizes, b=sizes, c=sizes, seed=st.integers(0, 2**32))
def test_product_cycles_and_stalls(layout: str, a: int, b: int, c: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = rng.integers(-128, 128, (a, b)), rng.integers(-128, 128, (b, c))
    shape = GemmShape(a, b, c)
    for dataflow in DATAFLOWS:
        for transposed in (False, True):
            outcome = unit(layout).multiply(left, right, dataflow=dataflow, transposed_a=transposed)
            np.testing.assert_array_equal(outcome.product, left @ right)
            along_columns = transposed == (dataflow == "IS")
            gathers = layout == "plain" and along_columns
            stalls = plain_stalls(shape, side=2, dataflow=dataflow) if gathers else 0
            assert outcome.stalls == stalls
            assert outcome.cycles == model.core_cycles(shape, side=2, dataflow=dataflow) + stalls


@settings(max_examples=4, deadline=None)
@given(a=sizes, b=sizes, c=sizes, seed=st.integers(0, 2**32))
def test_banks_beside_the_elements(a: int, b: int, c: int, seed: int) -> None:
    """Blocks come in at once and transposed reads cost nothing: Equation 5, but for a cycle of the drain."""
    rng = np.random.default_rng(seed)
    left, right = rng.integers(-128, 128, (a, b)), rng.integers(-128, 128, (b, c))
    for dataflow in DATAFLOWS:
        for transposed in (False, True):
            outcome = unit("blocked", block_load=True).multiply(
                left, right, dataflow=dataflow, transposed_a=transposed
            )
            np.testing.assert_array_equal(outcome.product, left @ right)
            stated = model.ppo_cycles(GemmShape(a, b, c), side=2, dataflow=dataflow)
            assert (outcome.cycles, outcome.stalls) == (stated + INTEGER.sum_cycles - 2, 0)


def test_two_activations_to_a_word_come_back_in_order() -> None:
    rng = np.random.default_rng(0)
    for dataflow in DATAFLOWS:
        left_limit, right_limit = (128, 8) if dataflow == "WS" else (8, 128)
        left = rng.integers(-left_limit, left_limit, (5, 3))
        right = rng.integers(-right_limit, right_limit, (3, 5))
        outcome = unit("blocked", True).multiply(left, right, dataflow=dataflow, halves=True)
        np.testing.assert_array_equal(outcome.product, left @ right)


def test_what_does_not_fit_the_memories_is_refused() -> None:
    with pytest.raises(ValueError, match="product: found 20 blocks of 2 x 2; allowed: 16"):
        unit("blocked").multiply(np.zeros((8, 1), int), np.zeros((1, 10), int))
    with pytest.raises(ValueError, match="layout: found 'tiled'; allowed: blocked, plain"):
        unit("tiled")


@pytest.mark.slow
@pytest.mark.skipif(bool(simulation.unavailable_reason()), reason=simulation.unavailable_reason())
def test_larger_products_in_verilator() -> None:
    rng = np.random.default_rng(0)
    compiled = SimulatedUnit(side=4, accumulator_depth=128)
    for a, b, c in ((64, 64, 64), (7, 100, 30), (3, 11, 64), (33, 5, 2)):
        left, right = (rng.integers(-(2**31), 2**31, shape) for shape in ((a, b), (b, c)))
        for dataflow in DATAFLOWS:
            outcome = compiled.multiply(left, right, dataflow=dataflow)
            np.testing.assert_array_equal(outcome.product, left @ right)  # both modulo 2**64
            assert outcome.cycles == model.core_cycles(GemmShape(a, b, c), side=4, dataflow=dataflow)
