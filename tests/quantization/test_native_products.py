"""The native products, rows and sums against exact integers: every way of cutting operands, every instruction set."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from primitives import _native
from primitives.quantization.fixed_point import Q, exact_matmul, shifted
from primitives.quantization.native_backend import SIMD

NATIVE: Any = _native.quantization
AS_THEY_ARE = (False, 0.0, 0.0, 0.0)


def instruction_sets() -> list[str]:
    found = []
    for name in SIMD[1:]:
        try:
            found.append(NATIVE.simd(name))
        except ValueError:
            continue
    return found


def matrix(rng: np.random.Generator, rows: int, columns: int, low: int, high: int, layout: str) -> np.ndarray:
    if layout == "columns":
        return rng.integers(low, high + 1, (columns, rows)).astype(np.int32).T
    if layout == "part":
        return rng.integers(low, high + 1, (rows, columns + 3)).astype(np.int32)[:, 1 : columns + 1]
    return rng.integers(low, high + 1, (rows, columns)).astype(np.int32)


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def side(array: np.ndarray) -> tuple[int, ...]:
    steps = (step // 4 if size > 1 else 0 for step, size in zip(array.strides, array.shape, strict=True))
    return (address(array), *array.shape, *steps)


def multiply(simd: str, a: np.ndarray, b: np.ndarray, places: int, out: Q) -> tuple[np.ndarray, Any]:
    c = np.zeros((a.shape[0], b.shape[1]), np.int32)
    product = NATIVE.Product(simd, side(a), side(b), side(c), out.lowest, out.highest)
    assert product.run(AS_THEY_ARE, AS_THEY_ARE, False, places, 2.0**-places)
    return c, product


LAYOUTS = st.sampled_from(("rows", "columns", "part"))
# 27 by 27 bits: 200 products fit int64.
RANGES = st.tuples(st.integers(1, 27), st.booleans()).map(
    lambda pair: (-(1 << pair[0]), (1 << pair[0]) - 1) if pair[1] else (0, (1 << pair[0]) - 1)
)


@pytest.mark.parametrize("simd", instruction_sets())
@settings(deadline=None, max_examples=30)
@given(
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 200), st.integers(1, 40)),
    ranges=st.tuples(RANGES, RANGES),
    layouts=st.tuples(LAYOUTS, LAYOUTS),
    places=st.integers(-3, 40),
    out=st.integers(12, 32),
    seed=st.integers(0, 2**32 - 1),
)
def test_products_are_exact_rounded_once_and_their_saturations_counted(
    simd: str, sizes: Any, ranges: Any, layouts: Any, places: int, out: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows, depth, columns = sizes
    a = matrix(rng, rows, depth, *ranges[0], layouts[0])
    b = matrix(rng, depth, columns, *ranges[1], layouts[1])
    fmt = Q(out, 0)
    found, product = multiply(simd, a, b, places, fmt)
    expected = fmt.store(shifted(exact_matmul(a, b), places))
    np.testing.assert_array_equal(found, expected.raw)
    assert product.saturated == (0, 0, expected.saturated)
    assert product.extremes == ((a.min(), a.max()), (b.min(), b.max()))


@pytest.mark.parametrize("simd", instruction_sets())
@pytest.mark.parametrize(
    ("a_range", "b_range", "digits"),
    [
        ((-128, 127), (-128, 127), (1, 1)),
        ((0, 65535), (-2048, 2047), (1, 1)),  # with an offset, and sums moved on the way
        ((0, 65535), (-(2**22), 2**22), (1, 2)),
        ((-(2**18), 2**18), (-(2**22), 2**22), (2, 2)),
        ((-(2**31), 2**31 - 1), (-(2**20), 2**20), (0, 0)),  # 32-bit multipliers: sums leave binary64
    ],
)
def test_operands_are_cut_into_as_few_digits_as_they_need(
    simd: str, a_range: tuple[int, int], b_range: tuple[int, int], digits: tuple[int, int]
) -> None:
    rng = np.random.default_rng(1)
    a, b = matrix(rng, 30, 400, *a_range, "rows"), matrix(rng, 400, 50, *b_range, "columns")
    a[0, :2], b[:2, 0] = a_range, b_range
    found, product = multiply(simd, a, b, 30, Q(32, 0))
    assert product.digits == digits
    np.testing.assert_array_equal(found, Q(32, 0).store(shifted(exact_matmul(a, b), 30)).raw)


def test_sums_that_64_bits_might_not_hold_are_left_to_the_definition() -> None:
    a = np.full((1, 4), 2**31 - 1, np.int32)
    c = np.zeros((1, 1), np.int32)
    product = NATIVE.Product("", side(a), side(a.T), side(c), -(2**31), 2**31 - 1)
    assert not product.run(AS_THEY_ARE, AS_THEY_ARE, False, 0, 1.0)


@pytest.mark.parametrize("simd", instruction_sets())
@settings(deadline=None, max_examples=30)
@given(
    columns=st.integers(1, 40), places=st.integers(0, 30), bits=st.integers(8, 32), seed=st.integers(0, 2**32 - 1)
)  # fmt: skip
def test_bias_and_rectifier_are_those_of_whole_numbers(
    simd: str, columns: int, places: int, bits: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-(2**31), 2**31, (3, columns)).astype(np.int32)
    bias = rng.integers(-(2**31), 2**31, columns).astype(np.int32)
    g = rng.integers(-9, 9, (3, columns)).astype(np.int32)
    y, masked = np.zeros_like(x), np.zeros_like(x)
    fmt = Q(bits, 0)
    count = NATIVE.add_rectify(address(y), address(x), address(bias), 3, columns, places, fmt.highest, simd)
    sums = x.astype(object) * 2**places + bias.astype(object)
    expected = fmt.store(shifted(np.maximum(sums, 0), places))
    np.testing.assert_array_equal(y, expected.raw)
    assert count == expected.saturated
    NATIVE.mask(address(masked), address(x), address(bias), address(g), 3, columns, places, simd)
    np.testing.assert_array_equal(masked, np.where(sums > 0, g, 0))


@settings(deadline=None)
@given(st.lists(st.floats(-1e300, 1e300), max_size=50), st.randoms())
def test_a_sum_is_correctly_rounded_in_any_order(values: list[float], random: Any) -> None:
    random.shuffle(values)
    array = np.array(values)
    try:
        expected = math.fsum(values)
    except OverflowError:
        return
    found = NATIVE.sum_exactly(address(array), array.size)
    assert found == expected or not math.isfinite(found)


def test_a_sum_that_is_not_finite_is_none() -> None:
    for values in ([1.0, math.inf], [math.nan], [1e308, 1e308]):
        array = np.array(values)
        assert math.isnan(NATIVE.sum_exactly(address(array), array.size))
