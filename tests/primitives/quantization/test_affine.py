"""FIX Algorithm 1's rule, against its own words in exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placerl.primitives.quantization.affine import Affine
from placerl.primitives.quantization.fixed_point import Q

FORMAT = Q(32, 16)


@given(st.integers(2, 16), st.integers(-(2**20), 2**20), st.integers(1, 2**21), st.integers(-(2**21), 2**21))
def test_codes_follow_the_rule_where_delta_is_a_power_of_two(
    bits: int, low: int, width: int, value: int
) -> None:
    width = 1 << width.bit_length()  # so that delta and its reciprocal are exact
    affine = Affine.of_range(bits, min(low, 0) / 65536, (min(low, 0) + width) / 65536)
    delta = Fraction(affine.delta)
    assert affine.zero == min(math.floor(Fraction(-min(low, 0), 65536) / delta), 2**bits - 1)
    rule = math.floor(Fraction(value, 65536) / delta) + affine.zero
    stored = affine.centred(np.array([value], np.int32), FORMAT)
    assert stored.raw[0] + affine.zero == min(max(rule, 0), 2**bits - 1)
    assert stored.saturated == (not 0 <= rule < 2**bits)


def test_the_captured_range_fits_and_zero_is_exact() -> None:
    affine = Affine.of_range(16, -0.7, 2.9)
    raw = FORMAT.from_float([-0.7, 0.0, 1.1]).raw
    codes = affine.codes(raw, FORMAT)
    assert codes.min() >= 0
    assert codes.max() < 2**16
    centred = affine.centred(raw, FORMAT)
    assert centred.raw[1] == 0
    error = np.abs(affine.to_float(centred.raw) - FORMAT.to_float(raw))
    assert error.max() <= affine.delta


def test_what_leaves_the_captured_range_saturates_and_is_counted() -> None:
    affine = Affine.of_range(8, -1.0, 1.0)
    stored = affine.centred(FORMAT.from_float([-3.0, 0.5, 3.0]).raw, FORMAT)
    assert (stored.raw.tolist(), stored.saturated) == ([-128, 64, 127], 2)


def test_a_range_without_zero_is_widened_to_it() -> None:
    assert Affine.of_range(8, 2.0, 4.0) == Affine.of_range(8, 0.0, 4.0)
    assert Affine.of_range(8, 0.0, 0.0).delta == 2**-8


def test_zero_has_a_code_in_a_range_without_positive_numbers() -> None:
    affine = Affine.of_range(8, -1.0, 0.0)
    assert (affine.zero, affine.lowest, affine.highest) == (255, -255, 0)
    stored = affine.centred(FORMAT.from_float([-1.0, -0.5, 0.0]).raw, FORMAT)
    assert (stored.raw.tolist(), stored.saturated) == ([-255, -128, 0], 1)


@given(st.integers(2, 16), st.integers(-(2**31), 2**31), st.integers(0, 2**32))
def test_zero_has_a_code_in_every_range(bits: int, low: int, width: int) -> None:
    affine = Affine.of_range(bits, low / 65536, (low + width) / 65536)
    assert 0 <= affine.zero < 2**bits
    stored = affine.centred(np.zeros(1, np.int32), FORMAT)
    assert (stored.raw.tolist(), stored.saturated) == ([0], 0)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [((1, 0.0, 1.0), "bits"), ((17, 0.0, 1.0), "bits"), ((-8, 0.0, 1.0), "bits"), ((8, 1.0, 0.0), "maximum"),
     ((8, math.nan, 0.0), "minimum"), ((8, 0.0, math.inf), "maximum")],
)  # fmt: skip
def test_a_range_that_is_none_names_its_field(arguments: tuple[int, float, float], field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}: found .*; allowed: "):
        Affine.of_range(*arguments)
