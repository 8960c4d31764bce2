"""Functions as tables of quadratic polynomials, which the hardware and its golden model share.

A table takes an unsigned number u of `input_bits` bits, 0 <= u < 1. Its top bits select a segment, and the other bits
t are the position in it. The value is c0 + (c1 + c2 t) t with `VALUE_FRACTION_BITS` bits after the point; each
product is truncated (floor).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from amaranth.hdl import Module, Signal, Value, signed
from numpy.typing import NDArray

from placerl.primitives.fpga.floating_point.words import registered

Array = NDArray[Any]

SEGMENT_BITS = 7
VALUE_FRACTION_BITS = 26
VALUE_BITS = VALUE_FRACTION_BITS + 4  # signed, magnitudes below 8
LATENCY = 3


@dataclass(frozen=True)
class LookupTable:
    """A function on [0, 1), as the coefficients of a quadratic polynomial for each segment.

    Attributes:
        input_bits: bits of the input u.
        coefficients: (2^SEGMENT_BITS, 3) integers c0, c1, c2.
    """

    input_bits: int
    coefficients: tuple[tuple[int, int, int], ...]

    @property
    def place_bits(self) -> int:
        """Number of bits of t, the position in a segment."""
        return self.input_bits - SEGMENT_BITS

    def golden(self, u: Array) -> Array:
        """Return the table's values, (n,) int64, for inputs u, (n,) int64: the golden model of `lookup`."""
        c0, c1, c2 = np.array(self.coefficients, np.int64).T[:, u >> self.place_bits]
        t = u & (1 << self.place_bits) - 1
        return c0 + ((c1 + (c2 * t >> self.place_bits)) * t >> self.place_bits)

    def lookup(self, m: Module, u: Value) -> Value:
        """Add hardware to `m` that computes the table's value for `u`; return the value, `LATENCY` cycles later."""
        segment = u[self.place_bits :]
        rows = [
            _rom(m, segment, [row[i] & (1 << VALUE_BITS) - 1 for row in self.coefficients]) for i in range(3)
        ]
        c0, c1, c2 = (registered(m, row.as_signed()) for row in rows)
        t = registered(m, u[: self.place_bits])
        inner = registered(m, (c1 + (c2 * t >> self.place_bits)), signed(VALUE_BITS))
        c0, t = registered(m, c0), registered(m, t)
        return registered(m, c0 + (inner * t >> self.place_bits), signed(VALUE_BITS))


def _rom(m: Module, address: Value, words: list[int]) -> Value:
    word = Signal(VALUE_BITS, name="row")
    with m.Switch(address):
        for number, value in enumerate(words):
            with m.Case(number):
                m.d.comb += word.eq(value)
    return word


def _fitted(function: Callable[[Array], Array], input_bits: int) -> LookupTable:
    """Fit a table of `function` on [0, 1), through the three Chebyshev points of each segment."""
    segments = 1 << SEGMENT_BITS
    nodes = 0.5 - 0.5 * np.cos(np.pi * (np.arange(3) + 0.5) / 3)
    points = (np.arange(segments)[:, None] + nodes) / segments
    solved = np.linalg.solve(np.vander(nodes, 3, increasing=True), function(points).T).T
    scaled = np.rint(solved * 2.0**VALUE_FRACTION_BITS).astype(np.int64)
    return LookupTable(input_bits, tuple((int(a), int(b), int(c)) for a, b, c in scaled))


def _ratio(function: Callable[[Array], Array], limit: float) -> Callable[[Array], Array]:
    """Return function(x) / x for x = 2 u - 1, with x limited to at least -limit; 1 at 0, as for all of these
    functions.
    """

    def ratio(u: Array) -> Array:
        x = np.maximum(2 * u - 1, -limit)
        return np.where(x == 0, 1.0, function(x) / np.where(x == 0, 1.0, x))

    return ratio


@cache
def power_of_two() -> LookupTable:
    """Return the table of 2^u - 1, for u in [0, 1)."""
    return _fitted(lambda u: np.exp2(u) - 1, 22)


@cache
def logarithm() -> LookupTable:
    """Return the table of log2(1 + u), for u in [0, 1)."""
    return _fitted(lambda u: np.log2(1 + u), 23)


@cache
def ratio(name: str) -> LookupTable:
    """Return the table of f(x) / x for x in [-1, 1), whose input is u = (x + 1) / 2.

    Args:
        name: name of the function f: "tanh", "expm1" or "log1p"; the last is for x >= -1/2 only.
    """
    functions = {"tanh": (np.tanh, 1.0), "expm1": (np.expm1, 1.0), "log1p": (np.log1p, 0.9)}
    return _fitted(_ratio(*functions[name]), 24)
