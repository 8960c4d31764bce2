"""Prepares a product for the systolic core: its operands as words, its command, and the result from the core's sums.

This is the host's part, in plain NumPy. All simulations of the core use it.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

DATAFLOWS = ("NS", "WS", "IS")
MOST_COUNTED = (1 << 16) - 1
"""Most blocks or vectors of a command: its counts have `control.INDEX_BITS`."""
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class GemmShape:
    """The sizes of C = A B: A is a x b (PPO 4: the weights), B is b x c (the inputs). All at least 1."""

    a: int
    b: int
    c: int

    def __post_init__(self) -> None:
        for name in ("a", "b", "c"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: found {getattr(self, name)}; allowed: 1 or more")

    @property
    def multiply_adds(self) -> int:
        return self.a * self.b * self.c


def checked_dataflow(dataflow: str) -> str:
    if dataflow not in DATAFLOWS:
        raise ValueError(f"dataflow: found {dataflow!r}; allowed: {', '.join(DATAFLOWS)}")
    return dataflow


def blocks(size: int, side: int) -> int:
    """Return how many blocks of `side` elements cover `size` elements."""
    return -(-size // side)


def word_shape(shape: GemmShape, dataflow: str, halves: bool) -> GemmShape:
    """Return the product's sizes in words.

    Args:
        halves: whether a word holds two activations of half its width. These are neighbours along c in "WS" and along
            a otherwise, so that this size is halved, rounded up.
    """
    checked_dataflow(dataflow)
    if not halves:
        return shape
    if dataflow == "WS":
        return GemmShape(shape.a, shape.b, blocks(shape.c, 2))
    return GemmShape(blocks(shape.a, 2), shape.b, shape.c)


def vectors(words: GemmShape, dataflow: str) -> int:
    """Return the number of vectors that stream through the array in one pass, in which one block stays in it.

    Args:
        words: the product's sizes in words, as `word_shape` returns them.
    """
    return {"NS": words.b, "WS": words.c, "IS": words.a}[dataflow]


def passes(words: GemmShape, dataflow: str, side: int) -> int:
    """Return the number of passes of the product: one per P x P block of what stays in the elements.

    Args:
        words: the product's sizes in words, as `word_shape` returns them.
        dataflow: "NS" (sums stay), "WS" (weights) or "IS" (inputs).
    """
    stays = {"NS": (words.a, words.c), "WS": (words.a, words.b), "IS": (words.c, words.b)}[
        checked_dataflow(dataflow)
    ]
    return blocks(stays[0], side) * blocks(stays[1], side)


def command_fields(words: GemmShape, *, side: int, dataflow: str, halves: bool = False) -> dict[str, Any]:
    """Return the fields of a product's `control.GemmCommand`, with which the core computes it.

    Args:
        words: the product's sizes in words, as `word_shape` returns them.
        halves: whether a word holds two activations of half its width.

    Raises:
        ValueError: the product streams more vectors, or has more blocks, than a command counts.
    """
    counts = {
        "a_blocks": blocks(words.a, side),
        "b_blocks": blocks(words.b, side),
        "c_blocks": blocks(words.c, side),
        "vectors": vectors(words, checked_dataflow(dataflow)),
    }
    for name, count in counts.items():
        if count > MOST_COUNTED:
            raise ValueError(
                f"{name}: found {count} in {dataflow}; allowed: at most {MOST_COUNTED} a command"
            )
    return {"dataflow": DATAFLOWS.index(dataflow), **counts, "halves": int(halves)}


def streamed_parts(words: GemmShape, dataflow: str) -> list[GemmShape]:
    """Return the products into which a product is divided along its vectors so that a command counts each one's.

    Args:
        words: the product's sizes in words, as `word_shape` returns them.
    """
    name = {"NS": "b", "WS": "c", "IS": "a"}[checked_dataflow(dataflow)]
    count = vectors(words, dataflow)
    sizes = [min(MOST_COUNTED, count - first) for first in range(0, count, MOST_COUNTED)]
    return [replace(words, **{name: size}) for size in sizes]


def check_streamed(words: GemmShape, dataflow: str, accumulator_depth: int) -> None:
    """Raise ValueError if a pass streams more vectors than the accumulators have places for sums.

    Args:
        words: the product's sizes in words, as `word_shape` returns them.
        accumulator_depth: the accumulators' places; "NS" needs none.
    """
    streamed = vectors(words, dataflow)
    if dataflow != "NS" and streamed > accumulator_depth:
        raise ValueError(f"{dataflow}: found {streamed} vectors a pass; allowed: {accumulator_depth}")


def checked_operand(name: str, matrix: NDArray[np.integer], bits: int) -> Integers:
    """Return an operand of a product as int64, after a check.

    Args:
        name: the operand's name in messages, such as "a".
        matrix: the operand.
        bits: bits of a signed number that the hardware takes.

    Raises:
        ValueError: `matrix` is not a matrix of integers, or a number does not fit `bits` bits.
    """
    matrix = np.asarray(matrix)
    if matrix.ndim != 2 or matrix.dtype.kind not in "iu":
        raise ValueError(
            f"{name}: found shape {matrix.shape} of {matrix.dtype}; allowed: a matrix of integers"
        )
    limit = 1 << (bits - 1)
    low, high = int(matrix.min()), int(matrix.max())
    if low < -limit or high >= limit:
        raise ValueError(
            f"{name}: found values from {low} to {high}; allowed: signed integers of {bits} bits"
        )
    return matrix.astype(np.int64)


def packed(matrix: Integers, axis: int, width: int) -> Integers:
    """Return `matrix` with every two neighbours along `axis` packed into one signed word.

    The first of the two is in the low half of the word. If their number is odd, the last word's high half is 0.

    Args:
        matrix: signed integers of width / 2 bits.
        axis: the axis whose size is halved.
    """
    matrix = np.moveaxis(matrix, axis, 0)
    if len(matrix) % 2:
        matrix = np.concatenate([matrix, np.zeros_like(matrix[:1])])
    mask = (1 << (width // 2)) - 1
    return np.moveaxis((matrix[1::2] << (width // 2)) | (matrix[::2] & mask), 0, axis)


def padded(matrix: Integers, side: int) -> Integers:
    """Return `matrix` padded with zeros at its end to whole blocks of side x side."""
    rows, columns = (blocks(size, side) * side for size in matrix.shape)
    return np.pad(matrix, ((0, rows - matrix.shape[0]), (0, columns - matrix.shape[1])))


@dataclass(frozen=True)
class GemmPlan:
    """One product, prepared for the systolic core.

    Attributes:
        shape: sizes of the product in numbers.
        words: sizes of the product in words (`word_shape`).
        dataflow: what stays in the array: "NS" (only sums), "WS" (weights) or "IS" (inputs).
        halves: whether a word of the operand that enters from the left (B in "WS", A otherwise) holds two activations.
        side: P, rows and columns of the array.
        a, b: the operands as words, padded to whole blocks of side x side, int64.
    """

    shape: GemmShape
    words: GemmShape
    dataflow: str
    halves: bool
    side: int
    a: Integers
    b: Integers

    @classmethod
    def of(
        cls,
        a: NDArray[np.integer],
        b: NDArray[np.integer],
        *,
        side: int,
        dataflow: str,
        width: int,
        halves: bool,
    ) -> "GemmPlan":
        """Return a product A B prepared for the systolic core, with its operands as words.

        Args:
            a, b: matrices of integers, (M, K) and (K, N).
            halves: whether a word holds two numbers of half the width, of B in "WS" and of A otherwise.

        Raises:
            ValueError: an operand is not a matrix of integers that fit its words, the sizes do not match, or the
                dataflow is unknown.
        """
        checked_dataflow(dataflow)
        left_bits = width // 2 if halves else width
        a = checked_operand("a", a, width if dataflow == "WS" else left_bits)
        b = checked_operand("b", b, left_bits if dataflow == "WS" else width)
        if a.shape[1] != b.shape[0]:
            raise ValueError(f"b: found {b.shape[0]} rows; allowed: {a.shape[1]}, the columns of a")
        shape = GemmShape(a.shape[0], a.shape[1], b.shape[1])
        if halves:
            a, b = (a, packed(b, 1, width)) if dataflow == "WS" else (packed(a, 0, width), b)
        words = word_shape(shape, dataflow, halves)
        return cls(shape, words, dataflow, halves, side, padded(a, side), padded(b, side))

    def command(self) -> dict[str, Any]:
        """Return the fields of the product's `control.GemmCommand`, with which the core computes it."""
        return command_fields(self.words, side=self.side, dataflow=self.dataflow, halves=self.halves)

    def product(self, sums: Integers) -> Integers:
        """Return the product C, (a, c) int64, from the sums that the core gave.

        Args:
            sums: (words.a, words.c, lanes) int64. With `halves`, the two lanes belong to the two activations of a word.
        """
        if not self.halves:
            return sums[:, :, 0]
        if self.dataflow == "WS":
            return sums.reshape(self.shape.a, -1)[:, : self.shape.c]
        return sums.transpose(0, 2, 1).reshape(-1, self.shape.c)[: self.shape.a]
