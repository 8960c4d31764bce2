"""The systolic core in float32: products equal to the golden model bit by bit, cycles to the cycle."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.compute_unit.simulation import SimulatedUnit
from placerl.primitives.fpga.cycles import gemm_float32
from placerl.primitives.fpga.cycles.layout import standing_stalls
from placerl.primitives.fpga.gemm.arithmetic import FLOAT32
from placerl.primitives.fpga.gemm.core import GemmCore
from placerl.primitives.fpga.gemm.plan import DATAFLOWS, GemmShape, command_fields
from placerl.primitives.fpga.gemm.timer import GemmTimer
from placerl.primitives.fpga.simulation.ports import columns
from tests.primitives.fpga import restarted
from tests.primitives.fpga.gemm import float_golden
from tests.primitives.fpga.interpreter import interpreted

SIDE = 2
SIZES = st.integers(1, 9)


@cache
def unit() -> SimulatedUnit:
    return SimulatedUnit(
        side=SIDE,
        width=32,
        accumulator_width=32,
        accumulator_depth=16,
        operand_blocks=25,
        result_blocks=25,
        block_load=True,
        float32=True,
        start=interpreted,
    )


def numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """float32 numbers of very different magnitudes, so that the order of additions shows, some of them zeros."""
    spread = rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 7, shape)
    return np.where(rng.random(shape) < 0.1, 0, spread).astype(np.float32)


@settings(max_examples=5, deadline=None)
@given(a=SIZES, b=SIZES, c=SIZES, seed=st.integers(0, 2**32))
def test_products_are_the_golden_models_bit_by_bit(a: int, b: int, c: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = numbers(rng, a, b), numbers(rng, b, c)
    for dataflow in DATAFLOWS:
        for transposed in (False, True):
            outcome = unit().multiply(
                float_golden.words(left),
                float_golden.words(right),
                dataflow=dataflow,
                transposed_a=transposed,
            )
            expected = float_golden.product(left, right, side=SIDE, dataflow=dataflow)
            np.testing.assert_array_equal(outcome.product, float_golden.words(expected))
            shape = GemmShape(a, b, c)
            cycles = gemm_float32.core_cycles(shape, side=SIDE, dataflow=dataflow)
            assert (outcome.cycles, outcome.stalls) == (cycles, 0)


@settings(max_examples=8, deadline=None)
@given(shapes=st.lists(st.builds(GemmShape, SIZES, SIZES, SIZES), min_size=1, max_size=3))
def test_the_timer_counts_the_same_cycles(shapes: list[GemmShape]) -> None:
    timer = restarted.interpreted(GemmTimer, side=4, block_load=True, float32=True)
    for dataflow in DATAFLOWS:
        commands = [
            {"gemm": command_fields(shape, side=4, dataflow=dataflow), "transposed_a": 0} for shape in shapes
        ]
        found = timer.run({"commands": columns(commands)}, {"finished": len(shapes)}).outputs["finished"]
        expected = [gemm_float32.core_cycles(shape, side=4, dataflow=dataflow) for shape in shapes]
        assert found["cycles"].tolist() == expected


@settings(max_examples=8, deadline=None)
@given(shapes=st.lists(st.builds(GemmShape, SIZES, SIZES, SIZES), min_size=1, max_size=3))
def test_the_timer_counts_the_stalls_of_the_plain_layout(shapes: list[GemmShape]) -> None:
    """As the whole unit does (`tests/primitives/fpga/compute_unit/test_plain_banks.py`)."""
    timer = restarted.interpreted(GemmTimer, side=3, block_load=True, float32=True, layout="plain")
    for dataflow in DATAFLOWS:
        options = {"side": 3, "dataflow": dataflow}
        commands = [
            {"gemm": command_fields(shape, **options), "transposed_a": int(dataflow == "IS")}
            for shape in shapes
        ]
        found = timer.run({"commands": columns(commands)}, {"finished": len(shapes)}).outputs["finished"]
        stalls = [standing_stalls(shape, arithmetic=FLOAT32, **options) for shape in shapes]
        cores = [gemm_float32.core_cycles(shape, **options) for shape in shapes]
        assert found["stalls"].tolist() == stalls
        assert found["cycles"].tolist() == [sum(both) for both in zip(cores, stalls, strict=True)]


@pytest.mark.parametrize("side", [16, 32])
def test_the_timer_counts_the_model_at_ppos_sides(side: int) -> None:
    """Hopper's hidden layer with its biases, 32 samples: forward, backward and weight gradient (PPO 5.1, 5.2)."""
    shapes = [GemmShape(64, 65, 32), GemmShape(64, 64, 32), GemmShape(64, 32, 65)]
    timer = restarted.interpreted(GemmTimer, side=side, block_load=True, float32=True)
    for shape, dataflow in zip(shapes, DATAFLOWS, strict=True):
        command = {"gemm": command_fields(shape, side=side, dataflow=dataflow), "transposed_a": 0}
        found = timer.run({"commands": columns([command])}, {"finished": 1}).outputs["finished"]
        assert found["cycles"].tolist() == [gemm_float32.core_cycles(shape, side=side, dataflow=dataflow)]


def test_orders_of_addition_differ_between_dataflows() -> None:
    """The golden model follows the dataflow: one sum after another, or block by block."""
    a = np.array([[2.0**24, 1, 1, 0]], np.float32)
    b = np.ones((4, 1), np.float32)
    assert float_golden.product(a, b, side=1, dataflow="NS")[0, 0] == 2**24
    # Blocks of 2: 2^24 + 1 rounds to 2^24, then 1 + 0 is added, which is lost as well.
    assert float_golden.product(a, b, side=2, dataflow="WS")[0, 0] == 2**24
    shifted = np.array([[2.0**24, 0, 1, 1]], np.float32)
    assert float_golden.product(shifted, b, side=2, dataflow="NS")[0, 0] == 2**24
    assert float_golden.product(shifted, b, side=2, dataflow="WS")[0, 0] == 2**24 + 2


def test_float32_needs_memories_next_to_its_elements() -> None:
    with pytest.raises(ValueError, match="block_load: found False; allowed with float32: True"):
        GemmCore(side=2, width=32, accumulator_width=32, float32=True)
