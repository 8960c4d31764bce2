"""A compute unit that stands still while a block of A is copied out of the plain layout: products and cycles."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.compute_unit.matrix_rows import row_places, row_writes
from placerl.primitives.fpga.compute_unit.plain_banks import PlainBanks
from placerl.primitives.fpga.compute_unit.simulation import SimulatedUnit
from placerl.primitives.fpga.cycles import gemm, gemm_float32
from placerl.primitives.fpga.cycles.layout import standing_stalls
from placerl.primitives.fpga.export import verilog
from placerl.primitives.fpga.gemm.arithmetic import FLOAT32, INTEGER
from placerl.primitives.fpga.gemm.plan import DATAFLOWS, GemmPlan, GemmShape
from placerl.primitives.fpga.simulation.ports import columns
from tests.primitives.fpga.gemm import float_golden
from tests.primitives.fpga.gemm.test_float_element import numbers
from tests.primitives.fpga.interpreter import interpreted

SIDE = 2
SIZES = st.integers(1, 9)


@cache
def unit(float32: bool, side: int = SIDE) -> SimulatedUnit:
    return SimulatedUnit(
        side=side,
        width=32,
        accumulator_width=32 if float32 else 64,
        accumulator_depth=16,
        operand_blocks=25,
        result_blocks=25,
        block_load=True,
        float32=float32,
        layout="plain",
        start=interpreted,
    )


def reads_across(dataflow: str, transposed: bool) -> bool:
    """Whether A is read across its rows; a block that stays in the array always is."""
    return dataflow == "WS" or transposed == (dataflow == "IS")


@settings(max_examples=4, deadline=None)
@given(a=SIZES, b=SIZES, c=SIZES, seed=st.integers(0, 2**32))
def test_float32_products_are_the_golden_models_bit_by_bit(a: int, b: int, c: int, seed: int) -> None:
    rng, shape = np.random.default_rng(seed), GemmShape(a, b, c)
    left, right = numbers(rng, a, b), numbers(rng, b, c)
    for dataflow in DATAFLOWS:
        options: dict[str, Any] = {"side": SIDE, "dataflow": dataflow}
        expected = float_golden.words(float_golden.product(left, right, **options))
        for transposed in (False, True):
            outcome = unit(float32=True).multiply(
                float_golden.words(left),
                float_golden.words(right),
                dataflow=dataflow,
                transposed_a=transposed,
            )
            np.testing.assert_array_equal(outcome.product, expected)
            stalls = standing_stalls(shape, arithmetic=FLOAT32, **options)
            assert outcome.stalls == (stalls if reads_across(dataflow, transposed) else 0)
            assert outcome.cycles == gemm_float32.core_cycles(shape, **options) + outcome.stalls


@pytest.mark.parametrize("side", [2, 3])
@settings(max_examples=3, deadline=None)
@given(a=SIZES, b=SIZES, c=SIZES, seed=st.integers(0, 2**32))
def test_products_of_integers_and_their_cycles(side: int, a: int, b: int, c: int, seed: int) -> None:
    rng, shape = np.random.default_rng(seed), GemmShape(a, b, c)
    left, right = rng.integers(-128, 128, (a, b)), rng.integers(-128, 128, (b, c))
    for dataflow in DATAFLOWS:
        options: dict[str, Any] = {"side": side, "dataflow": dataflow}
        for transposed in (False, True):
            outcome = unit(float32=False, side=side).multiply(
                left, right, dataflow=dataflow, transposed_a=transposed
            )
            np.testing.assert_array_equal(outcome.product, left @ right)
            stalls = standing_stalls(shape, arithmetic=INTEGER, **options)
            assert outcome.stalls == (stalls if reads_across(dataflow, transposed) else 0)
            core = gemm.core_cycles(shape, block_load=True, **options)
            assert outcome.cycles == core + outcome.stalls


def test_rows_are_written_and_read_while_the_array_stands_still() -> None:
    """A product is read back, and new operands of other blocks are stored, while the next product is computed."""
    simulated, rng = unit(float32=False), np.random.default_rng(0)
    core = simulated.core
    left, right, other = (rng.integers(-128, 128, (6, 6)) for _ in range(3))
    plan = GemmPlan.of(left, right, side=SIDE, dataflow="NS", width=32, halves=False)
    places = {"pitch_a": 3, "pitch_b": 3, "transposed_a": 0, "base_a": 0, "base_b": 0}
    for matrix, to_b in ((left, False), (right, True)):
        simulated._simulation.run({"writes": row_writes(matrix, core, to_b=to_b)}, {})
    rows: dict[str, Any] = {}
    for base, reads, writes in ((0, 0, None), (9, 18, other), (0, 18, None)):
        command = {"gemm": plan.command(), **places, "base_c": base}
        given_to = {"commands": columns([command])}
        if reads:
            given_to["reads"] = row_places(6, 3, side=SIDE, base=9 - base)
        if writes is not None:
            given_to["writes"] = row_writes(writes, core, to_b=False, base=9)
        wanted = {"finished": 1} | ({"rows": reads} if reads else {})
        found = simulated._simulation.run(given_to, wanted).outputs
        assert found["finished"]["stalls"][0] > 18, "longer than all rows take"
        rows[9 - base] = found.get("rows")
    for base in (0, 9):
        np.testing.assert_array_equal(rows[base].reshape(6, 6), left @ right)
    command = {"gemm": plan.command(), **places, "base_a": 9, "base_c": 0}
    simulated._simulation.run({"commands": columns([command])}, {"finished": 1})
    again = simulated._simulation.run({"reads": row_places(6, 3, side=SIDE)}, {"rows": 18}).outputs["rows"]
    np.testing.assert_array_equal(again.reshape(6, 6), other @ right)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="side, width, blocks: found 1, 8, 4; allowed: side 2 or more"):
        PlainBanks(side=1, width=8, blocks=4)
    with pytest.raises(ValueError, match="found 'plain'; allowed in an export with block_load: blocked"):
        verilog.export(unit(float32=False).unit)
