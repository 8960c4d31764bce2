"""The native products, rows and sums against exact integers: every way of cutting operands, every instruction set."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.primitives import _native
from placerl.primitives.quantization.fixed_point import Q, exact_matmul, round_half_up, shifted
from placerl.primitives.quantization.native_backend import SIMD
from placerl.primitives.quantization.reference_backend import exact_sum

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


on_each_instruction_set = pytest.mark.parametrize("simd", instruction_sets())


def matrix(rng: np.random.Generator, rows: int, columns: int, low: int, high: int, layout: str) -> np.ndarray:
    if layout == "columns":
        return rng.integers(low, high + 1, (columns, rows)).astype(np.int32).T
    if layout == "part":
        return rng.integers(low, high + 1, (rows, columns + 3)).astype(np.int32)[:, 1 : columns + 1]
    return rng.integers(low, high + 1, (rows, columns)).astype(np.int32)


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def side(array: np.ndarray, fresh: bool = True) -> tuple[Any, ...]:
    steps = (step // 4 if size > 1 else 0 for step, size in zip(array.strides, array.shape, strict=True))
    return (address(array), *array.shape, *steps, fresh)


def product(
    simd: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, places: int, out: Q, readings: Any = None
) -> Any:
    sources = [NATIVE.Source(simd, side(array)) for array in (a, b)]
    made = NATIVE.Product(simd, sources[0], side(a), sources[1], side(b), side(c), out.lowest, out.highest)
    made.read(*(readings or (AS_THEY_ARE, AS_THEY_ARE)), False, places, 2.0**-places)
    return made


def multiply(simd: str, a: np.ndarray, b: np.ndarray, places: int, out: Q) -> tuple[np.ndarray, Any]:
    c = np.zeros((a.shape[0], b.shape[1]), np.int32)
    made = product(simd, a, b, c, places, out)
    made.run()
    return c, made


LAYOUTS = st.sampled_from(("rows", "columns", "part"))
# 27 by 27 bits: 200 products fit int64.
RANGES = st.tuples(st.integers(1, 27), st.booleans()).map(
    lambda pair: (-(1 << pair[0]), (1 << pair[0]) - 1) if pair[1] else (0, (1 << pair[0]) - 1)
)


@on_each_instruction_set
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
    found, made = multiply(simd, a, b, places, fmt)
    expected = fmt.store(shifted(exact_matmul(a, b), places))
    np.testing.assert_array_equal(found, expected.raw)
    assert made.saturated == [0, 0, expected.saturated]
    assert made.extremes == ((a.min(), a.max()), (b.min(), b.max()))


@on_each_instruction_set
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
    found, made = multiply(simd, a, b, 30, Q(32, 0))
    assert made.digits == digits
    np.testing.assert_array_equal(found, Q(32, 0).store(shifted(exact_matmul(a, b), 30)).raw)


@on_each_instruction_set
@settings(deadline=None, max_examples=30)
@given(
    sizes=st.tuples(st.integers(1, 20), st.integers(1, 70), st.integers(1, 20)),
    layouts=st.tuples(LAYOUTS, LAYOUTS),
    bits=st.integers(24, 31),
    places=st.integers(-100, 130),
    scale=st.sampled_from((None, 1 / 3, 3e9, 2.0**-80)),
    out=st.integers(2, 32),
    seed=st.integers(0, 2**32 - 1),
)
def test_sums_that_64_bits_might_not_hold_are_exact_too(
    simd: str, sizes: Any, layouts: Any, bits: int, places: int, scale: float | None, out: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows, depth, columns = sizes
    a = matrix(rng, rows, depth, -(2**bits), 2**bits - 1, layouts[0])
    b = matrix(rng, depth, columns, -(2**bits), 2**bits - 1, layouts[1])
    a[:, ::3], b[::3] = -(2**31), -(2**31)
    c = np.zeros((rows, columns), np.int32)
    fmt = Q(out, 0)
    made = product(simd, a, b, c, 0, fmt)
    factor = 2.0**-places if scale is None else scale
    made.read(AS_THEY_ARE, AS_THEY_ARE, scale is not None, 0 if scale else places, factor)
    made.run()
    exact = exact_matmul(a, b)
    whole = shifted(exact, places) if scale is None else round_half_up(exact.astype(np.float64) * scale)
    expected = fmt.store(whole)
    np.testing.assert_array_equal(c, expected.raw)
    assert made.saturated == [0, 0, expected.saturated]


@on_each_instruction_set
@pytest.mark.parametrize("layouts", [("rows", "columns"), ("columns", "rows")])
def test_blocks_hold_even_where_every_number_is_as_large_as_its_rule_allows(
    simd: str, layouts: tuple[str, str]
) -> None:
    rng = np.random.default_rng(2)
    a, b = matrix(rng, 33, 700, 0, 65535, layouts[0]), matrix(rng, 700, 35, -2048, 2047, layouts[1])
    a[5:], b[:, :20] = 65535, -2048
    a[1], b[:, 33] = 0, 2047
    for one, other in ((a, b), (b.T, a.T)):
        found, made = multiply(simd, one, other, 9, Q(32, 0))
        assert made.digits == (1, 1)
        np.testing.assert_array_equal(found, Q(32, 0).store(shifted(exact_matmul(one, other), 9)).raw)


@on_each_instruction_set
@pytest.mark.parametrize("layouts", [("rows", "columns"), ("columns", "rows")])
def test_blocks_hold_where_every_number_is_far_from_0(simd: str, layouts: tuple[str, str]) -> None:
    rng, low = np.random.default_rng(3), 10**9  # the sum of a span leaves 32 bits
    a, b = matrix(rng, 33, 700, low, low + 65535, layouts[0]), matrix(rng, 700, 35, 1, 1, layouts[1])
    for one, other in ((a, b), (b.T, a.T)):
        found, made = multiply(simd, one, other, 9, Q(32, 0))
        assert made.digits == (1, 1)
        np.testing.assert_array_equal(found, Q(32, 0).store(shifted(exact_matmul(one, other), 9)).raw)


@on_each_instruction_set
@pytest.mark.parametrize("bits", [10, 15, 30])  # of A: one digit, more of them, 32-bit multipliers
@settings(deadline=None, max_examples=15)
@given(
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 70), st.integers(1, 40)),
    out=st.integers(12, 32),
    bias_bits=st.integers(4, 31),
    places=st.integers(0, 12),
    seed=st.integers(0, 2**32 - 1),
)
def test_what_follows_a_product_is_what_the_operations_alone_give(
    simd: str, bits: int, sizes: Any, out: int, bias_bits: int, places: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows, depth, columns = sizes
    a, b = (
        matrix(rng, rows, depth, -(2**bits), 2**bits, "rows"),
        matrix(rng, depth, columns, -999, 999, "columns"),
    )
    bias = rng.integers(-(2**bias_bits), 2**bias_bits, columns).astype(np.int32)
    other = rng.integers(-9, 9, (rows, columns)).astype(np.int32)
    fmt = Q(out, 0)
    x = fmt.store(shifted(exact_matmul(a, b), 8))
    rounded = (bias >> places) + (bias >> (places - 1) & 1) if places else bias
    expected = fmt.store(np.maximum(x.raw.astype(np.int64) + rounded, 0))
    found = np.zeros((rows, columns), np.int32)
    rectifies, masks = (product(simd, a, b, found, 8, fmt) for _ in range(2))
    rectifies.then_rectify(address(bias), places)
    rectifies.run()
    np.testing.assert_array_equal(found, expected.raw)
    assert rectifies.saturated == [0, 0, x.saturated + expected.saturated]
    masks.then_mask(address(other))
    masks.run()
    np.testing.assert_array_equal(found, np.where(other > 0, x.raw, 0))


@on_each_instruction_set
@pytest.mark.parametrize(
    ("low", "high"),
    [(-(2**15), 2**15 - 1), (-(2**15), 2**15), (-(2**15) - 1, 2**15 - 1), (1, 2**16), (0, 2**16)],
)
def test_an_operand_is_one_digit_only_if_both_its_ends_fit_16_bits(simd: str, low: int, high: int) -> None:
    a = np.array([[low, high, 7], [high, high, low]], np.int32)
    b = np.array([[3], [-2], [999]], np.int32)
    c, _ = multiply(simd, a, b, 0, Q(32, 0))
    np.testing.assert_array_equal(c, a.astype(np.int64) @ b.astype(np.int64))


@on_each_instruction_set
def test_products_share_what_they_read_until_it_changes(simd: str) -> None:
    rng = np.random.default_rng(3)
    x = matrix(rng, 30, 50, -(2**20), 2**20, "rows")
    weights = matrix(rng, 50, 20, -100, 100, "rows")
    errors = matrix(rng, 30, 7, -100, 100, "rows")
    coded = (True, 2.0**-6, -9000.0, 9000.0)
    source = NATIVE.Source(simd, side(x))
    results = [np.zeros((30, 20), np.int32), np.zeros((7, 50), np.int32)]
    forward = NATIVE.Product(
        simd, source, side(x), NATIVE.Source(simd, side(weights)), side(weights), side(results[0]), -(2**31), 2**31 - 1
    )  # fmt: skip
    backward = NATIVE.Product(
        simd, NATIVE.Source(simd, side(errors.T)), side(errors.T), source, side(x, fresh=False), side(results[1]),
        -(2**31), 2**31 - 1,
    )  # fmt: skip
    forward.read(coded, AS_THEY_ARE, False, 0, 1.0)
    backward.read(AS_THEY_ARE, coded, False, 0, 1.0)
    for _ in range(2):
        forward.run()
        backward.run()
        codes = np.floor(x * 2.0**-6)
        clipped = np.clip(codes, -9000, 9000).astype(np.int64)
        np.testing.assert_array_equal(results[0], clipped @ weights)
        np.testing.assert_array_equal(results[1], errors.T @ clipped)
        count = int((clipped != codes).sum())
        assert count > 0
        assert (forward.saturated, backward.saturated) == ([count, 0, 0], [0, count, 0])
        x[...] = matrix(rng, 30, 50, -(2**20), 2**20, "rows")


@on_each_instruction_set
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
    rectifies = NATIVE.AddRectify(
        simd, address(y), address(x), address(bias), 3, columns, places, fmt.highest
    )
    rectifies.run()
    sums = x.astype(object) * 2**places + bias.astype(object)
    expected = fmt.store(shifted(np.maximum(sums, 0), places))
    np.testing.assert_array_equal(y, expected.raw)
    assert rectifies.saturated == [expected.saturated]
    NATIVE.Mask(simd, address(masked), address(x), address(bias), address(g), 3, columns, places).run()
    np.testing.assert_array_equal(masked, np.where(sums > 0, g, 0))


def total(values: list[float]) -> float:
    array, found = np.array(values), np.zeros(())
    NATIVE.SumExactly(address(found), address(array), array.size).run()
    return float(found)


@settings(deadline=None, max_examples=300)
@given(
    st.one_of(
        st.lists(st.floats(-1e300, 1e300), max_size=50),
        st.lists(st.floats(-1e9, 1e9), max_size=50),
        st.lists(st.floats(-1e-300, 1e-300), max_size=50),
        st.lists(st.floats(), max_size=8),
    ),
    st.integers(0, 60),
    st.randoms(),
)
def test_a_sum_is_correctly_rounded_in_any_order(values: list[float], places: int, random: Any) -> None:
    # Neighbours in size too, which are summed as integers; and pairs that leave only their last bits.
    values = [*values, *(-math.nextafter(value, 0) for value in values[:5]), 2.0**-places]
    random.shuffle(values)
    np.testing.assert_equal(total(values), exact_sum(values))


@settings(deadline=None)
@given(st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=300), st.integers(0, 40))
def test_a_sum_of_numbers_of_like_size_is_correctly_rounded(values: list[int], spread: int) -> None:
    numbers = [math.ldexp(value, -(i % (spread + 1))) for i, value in enumerate(values)]
    assert total(numbers) == math.fsum(numbers)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, math.inf], math.inf),
        ([-math.inf, -math.inf, 3.0], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([1.0, math.nan], math.nan),
        ([1e308, 1e308], math.inf),
        ([-1e308, -1e308], -math.inf),
        ([1e308, 1e308, -1e308], 1e308),  # a partial sum is beyond the range, the sum is not
        ([5e-324, 5e-324], 1e-323),
        ([], 0.0),
    ],
)
def test_a_sum_at_the_ends_of_the_range_is_that_of_the_standard(values: list[float], expected: float) -> None:
    np.testing.assert_equal(total(values), expected)
    np.testing.assert_equal(exact_sum(values), expected)


@on_each_instruction_set
def test_floats_are_stored_as_the_format_stores_them(simd: str) -> None:
    values = np.float32([0.5, -0.5, 1.5, 2.5e-5, 3e38, -np.inf, np.nan, -1e-30, 32767.49, 7.0, -7.25])
    fmt, raw = Q(16, 3), np.zeros(11, np.int32)
    scale, low, high = 2.0**fmt.fraction_bits, float(fmt.lowest), float(fmt.highest)
    saturated = NATIVE.write_floats(address(raw), address(values), 11, scale, low, high, simd)
    expected = fmt.from_float(values)
    np.testing.assert_array_equal(raw, expected.raw)
    assert saturated == expected.saturated
