"""Where a backend stores the numbers of a fixed-point graph, and the operands and results of its products."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from primitives.quantization.fixed_point import Array, Q
from primitives.quantization.roles import Operand, Storage

Step = Callable[[], None]
Multiply = Callable[[Array, Array, tuple[Operand, Operand]], Array]
"""Maps the integers of A (.., M, K) and B (.., K, N), raw or centred codes, and their operands to the exact
product (.., M, N), in int64 or Python's integers.
"""


BINARY32_LEAST = 2.0**-126 - 2.0**-151
"""Numbers below this are stored in binary32 as zero: rounded to 24 bits they are subnormal, which the processors'
vector units flush to zero while a step runs (`primitives/native/subnormals.hpp`)."""


@dataclass(frozen=True)
class Located:
    """A view with its array.

    Attributes:
        array: array of the backend, with the view's shape and strides.
        storage: how its numbers are stored.
        label: label under which its saturations are counted.
    """

    array: Any
    storage: Storage
    label: str


@dataclass(frozen=True)
class Product:
    """A matrix product with its arrays.

    Attributes:
        operands: the operands A and B.
        a, b, c: their places; all in a format `Q`.
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
    """Return the factor that converts an exact sum of products to steps of the result's format."""
    return a_step * b_step * 2.0**out.fraction_bits
