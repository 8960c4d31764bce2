"""Where a fixed-point graph's numbers and products lie, as every backend of it sees them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from primitives.quantization.fixed_point import Array, Q
from primitives.quantization.roles import Operand, Storage

Step = Callable[[], None]
Multiply = Callable[[Array, Array, tuple[Operand, Operand]], Array]
"""From the integers of A (.., M, K) and B (.., K, N), raw or centred codes, and what they are, to their exact product
(.., M, N) in int64 or Python's integers."""


@dataclass(frozen=True)
class Located:
    """A view where it lies.

    Attributes:
        array: the backend's, of the view's shape and strides.
        storage: what it holds.
        label: what its saturations are counted under.
    """

    array: Any
    storage: Storage
    label: str


@dataclass(frozen=True)
class Product:
    """A matrix product where it lies.

    Attributes:
        operands: what A and B are.
        a, b, c: where they are; all of a `Q`.
    """

    operands: tuple[Operand, Operand]
    a: Located
    b: Located
    c: Located

    def formats(self) -> tuple[Q, Q, Q]:
        """The formats of A, B and C."""
        a, b, c = self.a.storage, self.b.storage, self.c.storage
        assert isinstance(a, Q)
        assert isinstance(b, Q)
        assert isinstance(c, Q)
        return a, b, c


def product_factor(a_step: float, b_step: float, out: Q) -> float:
    """What an exact sum of products is multiplied by to count steps of the result's format."""
    return a_step * b_step * 2.0**out.fraction_bits
