"""Compute a matrix product as FIX's processing elements do (FIX V-C), from products of 32 by 16 bits only.

An element has two multipliers of 32 by 16 bits. As long as activations have 32 bits, they compute one 32 by 32 bit
product:

    a w = (high w) 2^16 + low w,   a = high 2^16 + low,   low in [0, 2^16)

When activations have 16 bits, they multiply two activations by the same weight: two samples of the batch share a word.
The 16-bit halves of a word are signed. So 2^15 is subtracted from the activations' codes, and 2^15 times the sum of the
weights is added at the end.

This is the reference model of the hardware: `ReferenceFixedPointExecutable(..., multiply=ProcessingElements())` runs
whole gradient steps with it, and gives the same bits.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from placerl.primitives.quantization.fixed_point import Array
from placerl.primitives.quantization.roles import Operand, Role

HALF_BITS = 16
_OFFSET = 1 << (HALF_BITS - 1)


@dataclass
class ProcessingElements:
    """Computes exact matrix products as FIX's processing elements do, and counts their operations.

    Attributes:
        whole_products: 32 by 32 bit multiply-accumulates so far.
        paired_products: pairs of 32 by 16 bit products so far; an element does a pair in one cycle.
    """

    whole_products: int = 0
    paired_products: int = 0

    def __call__(self, a: Array, b: Array, operands: tuple[Operand, Operand]) -> Array:
        """Return the exact product of (M, K) and (K, N): activations or errors stream, weights stay (see
        `Multiply`).
        """
        # The streamed operand comes first: A, or if it is B, the transposed product is computed.
        if operands[0].role is Role.WEIGHT:
            return self._streamed(np.swapaxes(b, -1, -2), np.swapaxes(a, -1, -2)).swapaxes(-1, -2)
        return self._streamed(a, b)

    def _streamed(self, a: Array, b: Array) -> Array:
        low, high = (int(a.min()), int(a.max())) if a.size else (0, 0)
        if high - low >= 1 << HALF_BITS:
            self.whole_products += a[..., 0].size * b.shape[-2] * b.shape[-1]
            words = a.astype(np.int64)
            lower = _products(words & ((1 << HALF_BITS) - 1), b)
            return (_products(words >> HALF_BITS, b) << HALF_BITS) + lower
        offset = 0 if low >= -_OFFSET and high < _OFFSET else low + _OFFSET
        signed = a.astype(np.int64) - offset
        rows = signed.shape[-2]
        padded = np.zeros((*signed.shape[:-2], rows + rows % 2, signed.shape[-1]), np.int64)
        padded[..., :rows, :] = signed
        words = pack(padded[..., 0::2, :], padded[..., 1::2, :])
        first, second = unpack(words)
        self.paired_products += first[..., 0].size * b.shape[-2] * b.shape[-1]
        sums = np.empty((*padded.shape[:-1], b.shape[-1]), object)
        sums[..., 0::2, :], sums[..., 1::2, :] = _products(first, b), _products(second, b)
        return sums[..., :rows, :] + offset * b.astype(object).sum(axis=-2, keepdims=True)


def pack(first: Array, second: Array) -> Array:
    """Pack two signed 16-bit activations into one unsigned 32-bit word, the first in its low half."""
    mask = (1 << HALF_BITS) - 1
    return (first & mask) | ((second & mask) << HALF_BITS)


def unpack(words: Array) -> tuple[Array, Array]:
    """Return the two signed 16-bit halves of each word, the low ones first; the inverse of `pack`."""
    low, high = words & ((1 << HALF_BITS) - 1), words >> HALF_BITS
    return (low ^ _OFFSET) - _OFFSET, (high ^ _OFFSET) - _OFFSET


def _products(a: Array, b: Array) -> Any:
    """Return sums of products of up to 17 by 32 bits, in Python's integers."""
    return np.matmul(a.astype(object), b.astype(object))
