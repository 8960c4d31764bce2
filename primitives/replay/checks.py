"""Checks of arguments, and of numbers on their way into a column."""

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

_NUMBERS = "biufc"
_PRODUCT_MAX = 8192
"""Most elements of a product that OpenBLAS does not divide among threads: waiting for them may take milliseconds."""


def number(name: str, value: Any, allowed: str = "a number") -> float:
    """Return a real number as a float.

    Args:
        value: the argument's value; a bool or a text is none.

    Raises:
        TypeError: the value is not a real number.
    """
    if type(value) is float:  # the usual case
        return value
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        return float(value)
    raise TypeError(f"{name}: found {value!r}; allowed: {allowed}")


@cache
def _float_max(dtype: np.dtype) -> float:
    return float(np.finfo(dtype).max)


def _in_range(array: npt.NDArray, dtype: np.dtype) -> bool:
    """Return whether floats are in the range of another dtype of floats. False may also mean that they are large.

    A sum of squares shows it of few numbers in one pass. Of NumPy's products `vdot` alone warns of no overflow, so that
    it needs no `errstate`, which would take longer than the product.
    """
    limit = _float_max(dtype)
    if array.size <= _PRODUCT_MAX:
        return float(np.vdot(array, array)) < limit * limit
    # false for NaN
    return -limit <= float(np.minimum.reduce(array, None)) and float(np.maximum.reduce(array, None)) <= limit


def cast(name: str, array: npt.NDArray, dtype: np.dtype) -> npt.NDArray:
    """Return an array in a column's dtype, checked not to become other numbers than by rounding.

    Args:
        array: the array; it is returned if it has the dtype already.

    Raises:
        TypeError: a dtype that does not cast to the column's within its kind (float64 to float32 does, float to uint8
            and text to anything else do not).
        ValueError: a number out of the column's range.
    """
    if array.dtype == dtype:
        return array
    if dtype.kind == "f" and array.dtype.kind == "f" and _in_range(array, dtype):  # the usual case
        return array.astype(dtype)
    numbers = array.dtype.kind in _NUMBERS and dtype.kind in _NUMBERS
    if not np.can_cast(array.dtype, dtype, "same_kind" if numbers else "safe"):
        raise TypeError(f"{name}: found dtype {array.dtype}; allowed: what casts to {dtype}")
    if np.can_cast(array.dtype, dtype, "safe"):
        return array.astype(dtype)
    if dtype.kind in "fc":
        with np.errstate(over="ignore"):
            result = array.astype(dtype)
        lost = np.isinf(result) & np.isfinite(array)
        if lost.any():
            largest = float(np.finfo(dtype).max)
            raise ValueError(f"{name}: found {array[lost][0]}; allowed: at most {largest:.4g} in magnitude")
        return result
    if dtype.kind in "iu" and array.size:
        limits = np.iinfo(dtype)
        least, most = array.min(), array.max()
        if int(least) < limits.min or int(most) > limits.max:
            found = least if int(least) < limits.min else most
            raise ValueError(f"{name}: found {found}; allowed: {limits.min} to {limits.max}")
    return array.astype(dtype)
