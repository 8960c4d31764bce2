"""Turns float32 matrices into integers with one common exponent, which the systolic core can multiply.

A block is such a matrix: raw * 2^exponent. The exponent comes from its largest magnitude, as FIX derives the range of
activations from the observed values (Algorithm 1); here it is a power of two, so that scaling is exact. The width
leaves the core's accumulator room for every sum of the product: 28 bits for 256 terms, 25 for 16,384. With 28 bits a
float32 number within 2^4 of the largest magnitude is converted without loss, with 25 bits one within 2^1. Nothing
saturates; numbers that are not finite become 0 and are counted.

Hardware: `Scale` and `ToFixed` before the core, `FromFixed` and `Scale` after it.
"""

from typing import NamedTuple

import numpy as np

from placerl.primitives.fpga.floating_point import golden
from placerl.primitives.fpga.floating_point.convert import FromFixed, Scale, ToFixed
from placerl.primitives.fpga.floating_point.golden import Array
from placerl.primitives.fpga.vector.reduce_unit import block_exponent

WIDTH = 32  # of the core's operands
ACCUMULATOR_BITS = 64
CONVERSION_LATENCY = Scale.latency + ToFixed.latency + FromFixed.latency + Scale.latency


class FixedPointBlock(NamedTuple):
    """A block: integers with one common exponent.

    Attributes:
        raw: int64, each in the block's number of bits.
        exponent: the numbers are raw * 2^exponent.
        not_finite: number of values that were not finite and are now 0.
    """

    raw: Array
    exponent: int
    not_finite: int


def operand_bits(terms: int) -> int:
    """Return the largest width of operands for which a sum of `terms` products fits the accumulator.

    The width is in bits, with the sign, and at most `WIDTH`.
    """
    return min(WIDTH, 1 + (ACCUMULATOR_BITS - 2 - (terms - 1).bit_length()) // 2)


def to_block(values: Array, bits: int) -> FixedPointBlock:
    """Convert float32 numbers of any shape to a block, which is integers with one common exponent.

    Numbers are rounded to nearest, ties upwards.

    Args:
        values: the numbers.
        bits: width of an integer, including its sign.
    """
    finite = np.isfinite(values)
    not_finite = int(values.size - np.count_nonzero(finite))
    if not_finite:
        values = np.where(finite, values, np.float32(0))
    places = bits - 2 - block_exponent(values)
    raw = np.floor(np.ldexp(golden.flushed(values).astype(np.float64), places) + 0.5)
    return FixedPointBlock(np.minimum(raw, (1 << bits - 1) - 1).astype(np.int64), -places, not_finite)


def to_float(sums: Array, exponent: int) -> Array:
    """Return exact int64 sums times 2^exponent, rounded to float32."""
    return golden.scaled(golden.from_fixed(sums, 0), exponent)
