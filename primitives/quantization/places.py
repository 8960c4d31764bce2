"""Records of where a backend keeps the numbers of a fixed-point step graph and of its matrix products."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from placerl.primitives.quantization.fixed_point import Array, Q
from placerl.primitives.quantization.roles import Operand, Storage

Step = Callable[[], None]
Multiply = Callable[[Array, Array, tuple[Operand, Operand]], Array]
"""A function that returns the exact matrix product (.., M, N), in int64 or Python's integers. It takes the integers A
(.., M, K) and B (.., K, N), which are raw values or centred codes, and the roles of both.
"""


BINARY32_LEAST = 2.0**-126 - 2.0**-151
"""Numbers below this are stored in binary32 as zero: rounded to 24 bits they are subnormal, which the processors'
vector units flush to zero while a step runs (`primitives/native/subnormals.hpp`)."""


@dataclass(frozen=True)
class Located:
    """A view of a graph's buffer, with the backend's array that holds its numbers.

    Attributes:
        array: array of the backend, with the view's shape and strides.
        storage: how the numbers are stored: a fixed-point format, or a kind of plain number.
        label: kind under which numbers that do not fit the format are counted, such as "weights".
    """

    array: Any
    storage: Storage
    label: str


@dataclass(frozen=True)
class Product:
    """A matrix product C = A B with its arrays.

    Attributes:
        operands: roles of the operands A and B.
        a, b, c: the arrays of A, B and C, all in fixed point.
    """

    operands: tuple[Operand, Operand]
    a: Located
    b: Located
    c: Located

    def formats(self) -> tuple[Q, Q, Q]:
        """Return the fixed-point formats of the operands A and B and of their product C."""
        a, b, c = self.a.storage, self.b.storage, self.c.storage
        assert isinstance(a, Q)
        assert isinstance(b, Q)
        assert isinstance(c, Q)
        return a, b, c


def product_factor(a_step: float, b_step: float, out: Q) -> float:
    """Return the factor that converts an exact sum of integer products to raw values of the result's format.

    Args:
        a_step, b_step: the numbers that the integer 1 represents in A and in B.
    """
    return a_step * b_step * 2.0**out.fraction_bits
