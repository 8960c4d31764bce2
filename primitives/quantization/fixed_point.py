"""Fixed-point number formats, and exact integer arithmetic on numbers in them (FIX IV, V-C).

A number in the format `Q(bits, fraction_bits)` is a two's complement integer of `bits` bits, its *raw* value; it
represents raw / 2^fraction_bits. These rules hold in the whole package:

- **Rounding**: to the nearest, ties upwards: floor(x + 1/2). In hardware this takes one adder and a shift.
- **Saturation**: a value outside the format becomes its largest or smallest number, and is counted. NaN becomes 0
  and is counted too.
- **Products and sums** are exact integers, rounded and saturated once, when they are stored in a format. A sum of
  products is exact whatever its number of bits: int64 if the operands' magnitudes guarantee that it fits,
  otherwise Python's integers. So the order of additions does not matter, and every correct backend gives the same
  bits.

Floats are used only in `exact_matmul`, as carriers of integers below 2^53, which binary64 represents exactly.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from placerl.primitives import checks

Array = NDArray[Any]

MAXIMUM_BITS = 32
_EXACT_IN_BINARY64 = 1 << 53
_LIMB_BITS = 16
_LIMB = 1 << _LIMB_BITS


class Stored(NamedTuple):
    """Numbers stored in a format.

    Attributes:
        raw: int32, each in the format's range.
        saturated: number of values that did not fit.
    """

    raw: Array
    saturated: int


@dataclass(frozen=True)
class Q:
    """A fixed-point format.

    Attributes:
        bits: number of bits, including the sign, 2 to 32.
        fraction_bits: number of these bits after the point, 0 to `bits`. If all are, the range is [-1/2, 1/2).
    """

    bits: int
    fraction_bits: int

    def __post_init__(self) -> None:
        """Raise ValueError, which names the field, if the format is not valid."""
        checks.whole("bits", self.bits, 2)
        checks.in_range("bits", self.bits, 2, MAXIMUM_BITS)
        checks.whole("fraction_bits", self.fraction_bits, 0)
        if self.fraction_bits > self.bits:
            raise ValueError(
                f"fraction_bits: found {self.fraction_bits}; allowed: at most bits, which is {self.bits}"
            )

    def __str__(self) -> str:
        return f"Q({self.bits}, {self.fraction_bits})"

    @cached_property
    def lowest(self) -> int:
        """The smallest raw value of the format."""
        return -(1 << (self.bits - 1))

    @cached_property
    def highest(self) -> int:
        """The largest raw value of the format."""
        return (1 << (self.bits - 1)) - 1

    @cached_property
    def resolution(self) -> float:
        """The distance between neighbouring numbers of the format."""
        return 2.0**-self.fraction_bits

    @property
    def minimum(self) -> float:
        """The smallest number of the format."""
        return self.lowest * self.resolution

    @property
    def maximum(self) -> float:
        """The largest number of the format."""
        return self.highest * self.resolution

    def from_float(self, values: ArrayLike) -> Stored:
        """Return the nearest numbers of the format; infinities saturate.

        Args:
            values: real numbers, of any shape; float32 and float64 numbers are rounded only once.
        """
        # Scaling by a power of two is exact, short of overflow, which saturates all the same.
        with np.errstate(over="ignore"):
            scaled = np.asarray(values, np.float64) * 2.0**self.fraction_bits
        return self.store(round_half_up(scaled))

    def store(self, whole: Array) -> Stored:
        """Return integers as raw values of the format; those beyond its range saturate and are counted.

        Args:
            whole: the integers, as float64, int64 or Python's integers.
        """
        missing = int(np.isnan(whole).sum()) if whole.dtype.kind == "f" else 0
        if missing:
            whole = np.nan_to_num(whole, nan=0.0, posinf=np.inf, neginf=-np.inf)
        clipped = np.clip(whole, self.lowest, self.highest)
        saturated = int((clipped != whole).sum()) + missing
        return Stored(np.asarray(clipped).astype(np.int32), saturated)

    def to_float(self, raw: ArrayLike) -> Array:
        """Return the numbers that raw values represent, exactly, as float64."""
        return np.asarray(raw, np.float64) * self.resolution

    def rescale(self, exact: ArrayLike, fraction_bits: int) -> Stored:
        """Convert exact integers with a given number of fraction bits to this format: round once, then saturate.

        Args:
            exact: int64 or integers of fewer bits, or Python's integers in an array of objects; each represents
                itself / 2^fraction_bits.
            fraction_bits: fraction bits of `exact`, any integer.
        """
        return self.store(shifted(np.asarray(exact), fraction_bits - self.fraction_bits))


def round_half_up(values: Array) -> Array:
    """Return the nearest integers, ties upwards, as float64. (floor(x + 0.5) is wrong just below one half.)"""
    below = np.floor(values)
    with np.errstate(invalid="ignore"):
        return below + (values - below >= 0.5)


def shifted(exact: Array, places: int) -> Array:
    """Return integers divided by 2^places, to the nearest, ties upwards; multiplied if `places` is negative.

    Returns:
        int64, or Python's integers if they are given or if a multiplication could exceed int64.
    """
    if exact.dtype.kind in "iu" and exact.dtype.itemsize < 8:
        exact = exact.astype(np.int64)
    if places <= 0:
        wide = _magnitude(exact) << -places > _LARGEST
        return (exact.astype(object) if wide else exact) * (1 << -places)
    if exact.dtype != object:
        if places > 62:
            exact = exact.astype(object)
        else:
            # The rounding bit is added after the shift, where it cannot overflow.
            return (exact >> places) + (exact >> (places - 1) & 1)
    return (exact + (1 << (places - 1))) >> places


_LARGEST = (1 << 63) - 1


def _magnitude(values: Array) -> int:
    """Return the largest magnitude among integers; 0 if there are none."""
    if not values.size:
        return 0
    return max(abs(int(values.min())), abs(int(values.max())))


def _raw(name: str, values: Array) -> Array:
    if values.dtype.kind not in "iu":
        raise ValueError(f"{name}: found dtype {values.dtype}; allowed: integers")
    return values


def exact_matmul(a: Array, b: Array) -> Array:
    """Return the exact matrix product of integers of at most 32 bits, with as many accumulator bits as needed.

    NumPy multiplies integer matrices without a BLAS library, hundreds of times slower than floats. So an operand
    whose products might exceed binary64's 53 bits is split into 16-bit limbs. A sum of up to 2^20 products of
    limbs is exact in binary64, in any order of additions, and the parts are joined as integers.

    Args:
        a: (.., M, K) integers.
        b: (.., K, N) integers.

    Returns:
        (.., M, N) int64 if the magnitudes guarantee that it fits, otherwise Python's integers.

    Raises:
        ValueError: an argument is not an array of integers, or there are more than 2^20 terms.
    """
    a, b = _raw("a", a), _raw("b", b)
    terms = a.shape[-1]
    if terms > 1 << 20:
        raise ValueError(f"terms: found {terms} products in a sum; allowed: at most {1 << 20}")
    a_most, b_most = _magnitude(a), _magnitude(b)
    kind: Any = np.int64 if a_most * b_most * terms <= _LARGEST else object
    # The smaller operand is split first: with its limbs the larger one is mostly exact as it is.
    if a.size <= b.size:
        left, right = _limbs(a, a_most, b_most * terms), _limbs(b, b_most, min(a_most, _LIMB) * terms)
    else:
        left, right = _limbs(a, a_most, min(b_most, _LIMB) * terms), _limbs(b, b_most, a_most * terms)
    total: Any = 0
    for (one, one_weight), (other, other_weight) in product(left, right):
        part = np.matmul(one, other).astype(np.int64).astype(kind, copy=False)
        total = total + part * (one_weight * other_weight)
    return np.asarray(total)


def _limbs(values: Array, largest: int, factor: int) -> list[tuple[Array, int]]:
    """Return the limbs of 32-bit integers as float64, each with its weight: value = sum of limb * weight.

    There is one limb if values of magnitude `largest` times `factor` are exact in binary64, otherwise there are two:
    low in [0, 2^16), and high.
    """
    if largest * factor < _EXACT_IN_BINARY64:
        return [(values.astype(np.float64), 1)]
    wide = values.astype(np.int64, copy=False)
    low, high = wide & (_LIMB - 1), wide >> _LIMB_BITS
    return [(low.astype(np.float64), 1), (high.astype(np.float64), _LIMB)]
