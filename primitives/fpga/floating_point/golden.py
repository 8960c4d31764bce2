"""Golden models of the operators, in NumPy: equal to the hardware bit by bit for finite numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SMALLEST = np.float32(2.0**-126)
# A magnitude below this one is rounded to less than the smallest normal number, with 24 bits of precision.
_FLUSH_BELOW = 2.0**-126 * (1 - 2.0**-25)


def flushed(values: Array) -> Array:
    """Return float32 values with subnormal numbers replaced by zeros of their sign."""
    return values * (np.abs(values) >= SMALLEST)  # a product with 0 keeps the sign


def rounded(exact: Array) -> Array:
    """Return float64 numbers rounded to float32, with subnormal results replaced by zeros.

    This is correct for exact results that were rounded once, to float64.
    """
    narrow = exact.astype(np.float32)
    return narrow * (np.abs(exact) >= _FLUSH_BELOW)


def _in_float64(operation: Callable[..., Array]) -> Callable[..., Array]:
    # Rounding to 53 and then to 24 bits is rounding to 24 at once for + - * / and the root (53 >= 2 * 24 + 2).
    def model(*operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return rounded(operation(*(flushed(x).astype(np.float64) for x in operands)))

    return model


add = _in_float64(np.add)
subtract = _in_float64(np.subtract)
multiply = _in_float64(np.multiply)
divide = _in_float64(np.divide)
square_root = _in_float64(lambda x: np.sqrt(np.abs(x)))


def from_fixed(whole: Array, fraction_bits: int) -> Array:
    """Return whole / 2^fraction_bits for int64 numbers, rounded once to float32."""
    return (whole.astype(np.float32) * np.float32(2.0**-fraction_bits)).astype(np.float32)


def scaled(values: Array, places: int) -> Array:
    """Return float32 values times 2^places, rounded to float32."""
    with np.errstate(over="ignore"):
        return rounded(np.ldexp(flushed(values).astype(np.float64), places))
