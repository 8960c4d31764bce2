"""Numbers on their way into a column stay the same but for rounding, or are refused."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placerl.primitives.replay.checks import _PRODUCT_MAX, cast, number


@pytest.mark.parametrize("value", [1, 1.5, np.float32(1.5), np.int8(3), np.float64(2)])
def test_numbers_become_floats(value: float) -> None:
    assert (type(number("x", value)), number("x", value)) == (float, value)


@pytest.mark.parametrize("value", [True, np.True_, "1", None, 1j, [1.0], np.array([1.0])])
def test_what_is_no_number_is_named(value: object) -> None:
    with pytest.raises(TypeError, match=r"^x: found .*; allowed: a number$"):
        number("x", value)


def test_an_array_of_the_dtype_is_not_copied() -> None:
    array = np.zeros(3, np.float32)
    assert cast("x", array, np.dtype(np.float32)) is array


@pytest.mark.parametrize(
    ("array", "dtype", "expected"),
    [
        (np.array([1.5, np.nan, np.inf]), "f4", [1.5, np.nan, np.inf]),
        (np.array([1, 2]), "f4", [1, 2]),
        (np.array([True, False]), "f4", [1, 0]),
        (np.array([True, False]), "u1", [1, 0]),
        (np.array([-128, 127]), "i1", [-128, 127]),
        (np.array([255], np.uint64), "u1", [255]),
        (np.zeros(0, np.int64), "i1", []),
        (np.array(["ab"]), "U3", ["ab"]),
        (np.array([1 + 2j]), "c8", [1 + 2j]),
    ],
)
def test_what_a_column_holds_is_cast(array: np.ndarray, dtype: str, expected: list[object]) -> None:
    found = cast("x", array, np.dtype(dtype))
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, np.array(expected, dtype))


@pytest.mark.parametrize(
    ("array", "dtype", "error"),
    [
        (np.array([1e39]), "f4", ValueError),
        (np.array([1e39 + 1j]), "c8", ValueError),
        (np.array([70000]), "f2", ValueError),
        (np.array([128]), "i1", ValueError),
        (np.array([-129]), "i1", ValueError),
        (np.array([2**63], np.uint64), "i8", ValueError),
        (np.array([1.0]), "i8", TypeError),
        (np.array([-1]), "u1", TypeError),
        (np.array([1]), "?", TypeError),
        (np.array(["1"]), "f4", TypeError),
        (np.array([1.0]), "U3", TypeError),
        (np.array(["abcd"]), "U3", TypeError),
        (np.array([None]), "?", TypeError),
        (np.array([1j]), "f4", TypeError),
    ],
)
def test_what_a_column_would_change_is_refused(array: np.ndarray, dtype: str, error: type) -> None:
    with pytest.raises(error, match=r"^x: found .*; allowed: "):
        cast("x", array, np.dtype(dtype))


floats = st.floats() | st.sampled_from(
    [
        sign * number * factor
        for sign in (1, -1)
        for number in (65504.0, float(np.finfo(np.float32).max), float(np.finfo(np.float64).max))
        for factor in (1, 1 - 2**-12, 1 - 2**-25, 1 - 2**-53, 0.5)
    ]
)
kinds = st.sampled_from(["f2", "f4", "f8", ">f8", "g"])


@given(
    st.lists(floats, max_size=6), kinds, kinds, st.sampled_from([1, _PRODUCT_MAX]), st.sampled_from([1, 2])
)
def test_floats_are_rounded_or_refused_if_one_would_become_infinite(
    values: list[float], kind: str, column: str, repeats: int, step: int
) -> None:
    dtype = np.dtype(column)
    with np.errstate(all="ignore"):
        array = np.repeat(np.array(values, kind), repeats)[::step]
        expected = array.astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if (np.isinf(expected) & ~np.isinf(array)).any():
            with pytest.raises(ValueError, match=r"^x: found .*; allowed: at most .* in magnitude$"):
                cast("x", array, dtype)
        else:
            found = cast("x", array, dtype)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, expected)
