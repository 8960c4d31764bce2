"""The systolic core in Amaranth's simulator: exact products for any sizes, cycles to the cycle."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cycles import gemm as model
from placerl.primitives.fpga.gemm.arithmetic import INTEGER
from placerl.primitives.fpga.gemm.plan import DATAFLOWS, GemmShape
from tests.primitives.fpga.gemm.simulation import SimulatedGemm

WIDTH = 8
sizes = st.integers(1, 8)


@cache
def core(side: int, configurable: bool = False, block_load: bool = False) -> SimulatedGemm:
    return SimulatedGemm(
        side=side,
        width=WIDTH,
        accumulator_width=20,
        accumulator_depth=8,
        configurable=configurable,
        block_load=block_load,
    )


def matrix(rng: np.random.Generator, rows: int, columns: int, bits: int = WIDTH) -> NDArray[np.int64]:
    """Random integers of that many bits, the extremes among them."""
    limit = 1 << (bits - 1)
    values = rng.integers(-limit, limit, (rows, columns))
    extremes = rng.choice([-limit, limit - 1], (rows, columns))
    return np.where(rng.random((rows, columns)) < 0.3, extremes, values)


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("side", [2, 3])
@settings(max_examples=12, deadline=None)
@given(a=sizes, b=sizes, c=sizes, seed=st.integers(0, 2**32))
def test_product_and_cycles(side: int, dataflow: str, a: int, b: int, c: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = matrix(rng, a, b), matrix(rng, b, c)
    outcome = core(side).multiply(left, right, dataflow=dataflow)
    np.testing.assert_array_equal(outcome.product, left @ right)
    assert outcome.cycles == model.core_cycles(GemmShape(a, b, c), side=side, dataflow=dataflow)


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@settings(max_examples=8, deadline=None)
@given(a=sizes, b=sizes, c=sizes, seed=st.integers(0, 2**32))
def test_blocks_that_come_in_at_once(dataflow: str, a: int, b: int, c: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = matrix(rng, a, b), matrix(rng, b, c)
    outcome = core(3, block_load=True).multiply(left, right, dataflow=dataflow)
    np.testing.assert_array_equal(outcome.product, left @ right)
    fill = INTEGER.sum_cycles - 2
    assert outcome.cycles == model.ppo_cycles(GemmShape(a, b, c), side=3, dataflow=dataflow) + fill


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@settings(max_examples=6, deadline=None)
@given(a=sizes, b=sizes, c=sizes, seed=st.integers(0, 2**32))
def test_two_activations_to_a_word(dataflow: str, a: int, b: int, c: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left_bits, right_bits = (WIDTH, WIDTH // 2) if dataflow == "WS" else (WIDTH // 2, WIDTH)
    left, right = matrix(rng, a, b, left_bits), matrix(rng, b, c, right_bits)
    outcome = core(2, configurable=True).multiply(left, right, dataflow=dataflow, halves=True)
    np.testing.assert_array_equal(outcome.product, left @ right)
    shape = GemmShape(a, b, c)
    assert outcome.cycles == model.core_cycles(shape, side=2, dataflow=dataflow, halves=True)


def test_cycles_depend_on_the_sizes_alone() -> None:
    rng = np.random.default_rng(0)
    for dataflow in DATAFLOWS:
        left, right = matrix(rng, 5, 7), matrix(rng, 7, 4)
        cycles = core(3).cycles(GemmShape(5, 7, 4), dataflow=dataflow)
        assert cycles == core(3).multiply(left, right, dataflow=dataflow).cycles


@settings(max_examples=6, deadline=None)
@given(shapes=st.lists(st.tuples(sizes, sizes, sizes), min_size=2, max_size=4), seed=st.integers(0, 2**32))
def test_products_follow_each_other_without_a_gap(shapes: list[tuple[int, int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = [(matrix(rng, a, b), matrix(rng, b, c)) for a, b, c in shapes]
    for dataflow in DATAFLOWS:
        outcome = core(2).multiply_all(pairs, dataflow=dataflow)
        for product, (left, right) in zip(outcome.products, pairs, strict=True):
            np.testing.assert_array_equal(product, left @ right)
        alone = [model.core_cycles(GemmShape(*shape), side=2, dataflow=dataflow) for shape in shapes]
        assert outcome.cycles == sum(alone) - (len(alone) - 1) * model.fill_cycles(side=2)


def test_sums_wrap_at_the_accumulator() -> None:
    narrow = SimulatedGemm(side=2, width=8, accumulator_width=16, accumulator_depth=4)
    for dataflow in DATAFLOWS:
        left, right = np.full((2, 4), -128), np.full((4, 2), -128)
        wrapped = narrow.multiply(left, right, dataflow=dataflow).product
        np.testing.assert_array_equal(wrapped, (left @ right).astype(np.int16))


@pytest.mark.parametrize(
    ("left", "right", "options", "message"),
    [
        (np.zeros((2, 3), int), np.zeros((2, 3), int), {}, "b: found 2 rows; allowed: 3"),
        (np.full((2, 2), 128), np.zeros((2, 2), int), {}, "a: found values from 128 to 128"),
        (np.zeros((2, 2)), np.zeros((2, 2), int), {}, "a: found shape"),
        (np.zeros((2, 2), int), np.zeros((2, 2), int), {"dataflow": "OS"}, "dataflow: found 'OS'"),
        (np.zeros((2, 2), int), np.zeros((2, 9), int), {"dataflow": "WS"}, "WS: found 9 vectors a pass"),
        (np.zeros((2, 2), int), np.zeros((2, 2), int), {"halves": True}, "halves: found True"),
    ],
)
def test_what_the_core_refuses(
    left: NDArray[np.int64], right: NDArray[np.int64], options: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        core(2).multiply(left, right, **options)


def test_the_formula_and_the_core_differ_by_stated_terms() -> None:
    shape = GemmShape(a=5, b=9, c=2)
    for dataflow in DATAFLOWS:
        simulated = core(3).cycles(shape, dataflow=dataflow)
        terms = model.difference_terms(shape, side=3, dataflow=dataflow)
        assert simulated - model.ppo_cycles(shape, side=3, dataflow=dataflow) == sum(terms.values())
