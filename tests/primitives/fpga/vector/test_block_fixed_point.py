import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.vector.block_fixed_point import operand_bits, to_block, to_float
from placerl.primitives.quantization.fixed_point import exact_matmul

SIZES = st.integers(1, 40)


@pytest.mark.parametrize(("terms", "bits"), [(1, 32), (2, 31), (256, 28), (257, 27), (16_384, 25)])
def test_every_sum_of_products_fits_the_accumulator(terms: int, bits: int) -> None:
    assert operand_bits(terms) == bits
    lowest = -(1 << bits - 1)
    assert lowest * lowest * terms < 2**63


@settings(max_examples=50, deadline=None)
@given(SIZES, SIZES, SIZES, st.integers(-20, 20), st.integers(0, 2**32 - 1))
def test_products_are_within_the_bound_of_the_format(
    rows: int, terms: int, columns: int, places: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    a = (rng.standard_normal((rows, terms)) * 2.0**places).astype(np.float32)
    b = rng.standard_normal((terms, columns)).astype(np.float32)
    bits = operand_bits(terms)
    left, right = to_block(a, bits), to_block(b, bits)
    found = to_float(exact_matmul(left.raw, right.raw), left.exponent + right.exponent)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    # Half a unit of each operand's block, times the other operand; then one rounding to float32.
    units = 2.0**left.exponent, 2.0**right.exponent
    bound = 0.5 * (units[0] * np.abs(b).sum(0)[None] + units[1] * np.abs(a).sum(1)[:, None])
    assert (
        np.abs(found - exact) <= 1.01 * bound + 2.0**-24 * np.abs(exact) + units[0] * units[1] * terms
    ).all()


def test_numbers_within_reach_of_the_largest_are_kept_exactly() -> None:
    values = np.array([1.9999999, -0.1234567, 2.0**-4, 0], np.float32)
    block = to_block(values, 32)
    np.testing.assert_array_equal(np.ldexp(block.raw.astype(np.float64), block.exponent), values)


def test_numbers_that_are_not_finite_become_zero_and_are_counted() -> None:
    block = to_block(np.array([np.nan, 1, -np.inf], np.float32), 28)
    assert block.not_finite == 2
    assert block.raw.tolist() == [0, 1 << 26, 0]


def test_zeros_are_a_block() -> None:
    assert to_block(np.zeros(3, np.float32), 28).raw.tolist() == [0, 0, 0]
