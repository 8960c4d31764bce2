"""The golden model of a float32 product on the systolic core: the sums in the order in which the hardware adds them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga.floating_point import golden
from placerl.primitives.fpga.gemm.plan import blocks, checked_dataflow

Floats = NDArray[np.float32]


def _row_by_row(sums: Floats, a: Floats, b: Floats) -> Floats:
    for k in range(a.shape[1]):
        sums = golden.add(sums, golden.multiply(a[:, k, None], b[None, k]))
    return sums


def product(a: Floats, b: Floats, *, side: int, dataflow: str) -> Floats:
    """Return the product A B, (M, N) float32, equal to the hardware's bit by bit.

    NS: the products are added one after another from 0 on. WS, IS: those of each block of `side` are added
    from 0 on, in a column of the array; these partial sums are added one after another, below it. A block that extends
    beyond the matrices has zeros there.

    Args:
        a, b: matrices of float32, (M, K) and (K, N), finite.
        side: P, rows and columns of the array.
        dataflow: what stays in the array: "NS" (only sums), "WS" (weights) or "IS" (inputs).
    """
    zero = np.zeros((a.shape[0], b.shape[1]), np.float32)
    if checked_dataflow(dataflow) == "NS":
        return _row_by_row(zero, a, b)
    padding = blocks(a.shape[1], side) * side - a.shape[1]
    a, b = np.pad(a, ((0, 0), (0, padding))), np.pad(b, ((0, padding), (0, 0)))
    total = zero
    for start in range(0, a.shape[1], side):
        block = slice(start, start + side)
        total = golden.add(total, _row_by_row(zero, a[:, block], b[block]))
    return total


def words(numbers: Any) -> NDArray[np.int64]:
    """Return the words of float32 numbers as signed integers, as the core's ports take them."""
    return np.ascontiguousarray(numbers, np.float32).view(np.int32).astype(np.int64)


def floats(words: Any) -> Floats:
    """Return the float32 numbers of words, integers of 32 bits, signed or not, as ports give them."""
    return np.asarray(words).astype(np.uint32).view(np.float32)
