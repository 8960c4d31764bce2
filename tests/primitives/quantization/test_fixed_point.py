"""Formats, rounding, saturation, and that no integer is ever rounded on its way through a float."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from placerl.primitives.quantization import fixed_point
from placerl.primitives.quantization.fixed_point import Q
from tests.primitives.quantization.arithmetic import add, matmul, multiply

RAW32 = st.integers(-(2**31), 2**31 - 1)


def matrices(rows: int, columns: int) -> st.SearchStrategy[np.ndarray]:
    return arrays.arrays(np.int32, (rows, columns), elements=RAW32)


@pytest.mark.parametrize(
    ("bits", "fraction_bits", "field"),
    [(-3, 0, "bits"), (1, 0, "bits"), (33, 0, "bits"), (16, -1, "fraction_bits"), (16, 17, "fraction_bits"),
     (16.0, 3, "bits"), (True, 0, "bits"), (16, "3", "fraction_bits")],
)  # fmt: skip
def test_a_format_that_is_none_names_its_field(bits: int, fraction_bits: int, field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}: found .*; allowed: "):
        Q(bits, fraction_bits)


def test_a_format_says_its_range_and_resolution() -> None:
    fmt = Q(8, 6)
    assert (fmt.minimum, fmt.maximum, fmt.resolution) == (-2.0, 127 / 64, 1 / 64)
    assert str(fmt) == "Q(8, 6)"
    assert (Q(4, 4).minimum, Q(4, 4).maximum) == (-0.5, 7 / 16)


def test_values_round_to_the_nearest_and_ties_go_up() -> None:
    just_below_a_half = np.nextafter(0.5, 0.0)
    stored = Q(8, 0).from_float([0.5, -0.5, 1.5, -1.5, just_below_a_half, -0.51, 3.0])
    assert stored.raw.tolist() == [1, 0, 2, -1, 0, -1, 3]
    assert stored.saturated == 0


def test_what_does_not_fit_saturates_and_is_counted() -> None:
    stored = Q(8, 0).from_float([127.4, 127.5, -128.5, -128.6, np.inf, -np.inf, np.nan, 1e308])
    assert stored.raw.tolist() == [127, 127, -128, -128, 127, -128, 0, 127]
    assert stored.saturated == 6


@given(st.integers(2, 32).flatmap(lambda bits: st.tuples(st.just(bits), st.integers(0, bits))), RAW32)
def test_every_number_of_a_format_survives_floats(shape: tuple[int, int], raw: int) -> None:
    fmt = Q(*shape)
    kept = np.clip(np.array([raw]), fmt.lowest, fmt.highest)
    stored = fmt.from_float(fmt.to_float(kept))
    assert stored.raw.tolist() == kept.tolist()
    assert stored.saturated == 0


@given(st.integers(1, 6).flatmap(lambda k: st.tuples(matrices(3, k), matrices(k, 2))))
def test_matrix_products_are_exact(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = pair
    expected = a.astype(object) @ b.astype(object)
    assert (fixed_point.exact_matmul(a, b).astype(object) == expected).all()


def test_a_product_that_binary64_would_round_is_exact() -> None:
    # 2^31 - 1 squared needs 62 bits; binary64 has 53.
    a = np.full((1, 1), 2**31 - 1, np.int32)
    assert int(fixed_point.exact_matmul(a, a)[0, 0]) == (2**31 - 1) ** 2
    assert int(np.float64(2**31 - 1) ** 2) != (2**31 - 1) ** 2


def test_a_sum_beyond_int64_is_exact() -> None:
    a = np.full((1, 8), -(2**31), np.int32)
    assert int(fixed_point.exact_matmul(a, a.T)[0, 0]) == 8 * 2**62
    stored = matmul(a, Q(32, 31), a.T, Q(32, 31), Q(32, 16))
    assert (stored.raw.tolist(), stored.saturated) == ([[8 << 16]], 0)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-40, 70))
def test_shifts_round_half_up_at_any_width(value: int, places: int) -> None:
    shifted = fixed_point.shifted(np.array([value], np.int64), places)
    expected = (value + (1 << places >> 1)) >> places if places > 0 else value << -places
    assert int(shifted[0]) == expected


@given(
    st.sampled_from(["int8", "uint8", "int16", "uint16", "int32", "uint32"]), st.data(), st.integers(-40, 70)
)
def test_shifts_of_narrow_integers_are_those_of_wide_ones(
    dtype: str, data: st.DataObject, places: int
) -> None:
    limits = np.iinfo(dtype)
    value = data.draw(st.integers(int(limits.min), int(limits.max)))
    shifted = fixed_point.shifted(np.array([value], dtype), places)
    expected = (value + (1 << places >> 1)) >> places if places > 0 else value << -places
    assert int(shifted[0]) == expected


@given(RAW32, st.integers(0, 32), st.integers(2, 32), st.integers(0, 32))
def test_raw_values_go_from_format_to_format_rounded_once(
    raw: int, fraction_bits: int, bits: int, to_fraction_bits: int
) -> None:
    fmt = Q(bits, min(to_fraction_bits, bits))
    places = fraction_bits - fmt.fraction_bits
    exact = (raw + (1 << places >> 1)) >> places if places > 0 else raw << -places
    stored = fmt.rescale(np.array([raw], np.int32), fraction_bits)
    assert int(stored.raw[0]) == min(max(exact, fmt.lowest), fmt.highest)
    assert stored.saturated == (not fmt.lowest <= exact <= fmt.highest)


def test_add_and_multiply_saturate_and_count() -> None:
    fmt = Q(8, 4)
    stored = add(np.array([100, 1], np.int32), np.array([100, 2], np.int32), fmt)
    assert (stored.raw.tolist(), stored.saturated) == ([127, 3], 1)
    product = multiply(np.array([24, 24]), fmt, np.array([24, 127]), fmt, fmt)
    assert (product.raw.tolist(), product.saturated) == ([36, 127], 1)


def test_floats_are_refused_where_raw_values_belong() -> None:
    with pytest.raises(ValueError, match=r"^a: found dtype float64; allowed: integers"):
        fixed_point.exact_matmul(np.ones((1, 1)), np.ones((1, 1), np.int32))


def test_too_many_terms_for_exact_limbs_are_refused() -> None:
    a = np.zeros((1, (1 << 20) + 1), np.int32)
    with pytest.raises(ValueError, match=r"^terms: found 1048577"):
        fixed_point.exact_matmul(a, a.T)
