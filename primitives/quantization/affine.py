"""Quantise numbers to n bits over a recorded range, by FIX Algorithm 1: Q_n(A) = floor(A / delta) + z."""

import math
from dataclasses import dataclass

import numpy as np

from placerl.primitives import checks
from placerl.primitives.quantization.fixed_point import MAXIMUM_BITS, Array, Q, Stored


@dataclass(frozen=True)
class Affine:
    """A rule that quantises the numbers of a range to n bits (FIX Algorithm 1):

        delta = (A_max - A_min) / 2^n,   z = floor(-A_min / delta),   Q_n(A) = floor(A / delta) + z

    in [0, 2^n); values outside the range saturate and are counted. (For the ends of the range themselves the two
    floors can give -1 and 2^n, one code outside. Unlike in the paper, z is at most 2^n - 1: a range without positive
    numbers would give 2^n, and 0 would have no code.) A code q represents (q - z) delta. Products take the *centred*
    code q - z, an integer, so that a sum of products is exact and delta is applied once, at its end.

    A / delta is computed as a product with `reciprocal`, in binary64. The result is the same in every backend,
    and a multiplication is ten times as fast as a division.

    Attributes:
        bits: n, 2 to 16.
        delta: the step, above 0.
        zero: z, the code of 0, in [0, 2^n).
    """

    bits: int
    delta: float
    zero: int

    def __post_init__(self) -> None:
        """Raise ValueError that names the wrong field."""
        checks.whole("bits", self.bits, 2)
        checks.in_range("bits", self.bits, 2, MAXIMUM_BITS // 2)
        checks.positive("delta", self.delta)

    @classmethod
    def of_range(cls, bits: int, minimum: float, maximum: float) -> "Affine":
        """Return the rule for a recorded range, widened to contain 0, which padding and ReLU need exactly.

        For a range of only 0, delta is 2^-n.

        Args:
            bits: n, 2 to 16.
            minimum, maximum: ends of the range.

        Raises:
            ValueError: bits out of range, or ends of the range that are not finite or in the wrong order.
        """
        checks.whole("bits", bits, 2)
        checks.in_range("minimum", minimum, -math.inf)
        checks.in_range("maximum", maximum, minimum)
        low, high = min(minimum, 0.0), max(maximum, 0.0)
        delta = (high - low or 1.0) / 2**bits
        return cls(bits, delta, min(math.floor(-low / delta), 2**bits - 1))

    @property
    def reciprocal(self) -> float:
        """1 / delta, rounded to binary64."""
        return 1.0 / self.delta

    @property
    def lowest(self) -> int:
        """The smallest centred code (code minus `zero`)."""
        return -self.zero

    @property
    def highest(self) -> int:
        """The largest centred code (code minus `zero`)."""
        return (1 << self.bits) - 1 - self.zero

    def centred(self, raw: Array, fmt: Q) -> Stored:
        """Return the centred codes Q_n(A) - z of fixed-point numbers, int32 in [-z, 2^n - z).

        Returns:
            The codes, and how many numbers were outside the range.
        """
        steps = np.floor(raw.astype(np.float64) * self.factor(fmt))
        clipped = np.clip(steps, self.lowest, self.highest)
        return Stored(clipped.astype(np.int32), int((clipped != steps).sum()))

    def factor(self, fmt: Q) -> float:
        """Return resolution / delta, binary64, by which raw values of a format are multiplied before they are floored.

        Args:
            fmt: the format of the numbers, whose resolution is the number that the raw value 1 represents.
        """
        return fmt.resolution * self.reciprocal

    def codes(self, raw: Array, fmt: Q) -> Array:
        """Return the codes Q_n(A) of fixed-point numbers, int32 in [0, 2^n), saturated at both ends."""
        return self.centred(raw, fmt).raw + np.int32(self.zero)

    def to_float(self, centred: Array) -> Array:
        """Return the numbers that centred codes (codes minus `zero`) represent, float64."""
        return centred.astype(np.float64) * self.delta
