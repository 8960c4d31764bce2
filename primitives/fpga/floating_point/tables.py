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
from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from numpy.typing import NDArray

from placerl.primitives.fpga.floating_point.words import named, registered

Array = NDArray[Any]

SEGMENT_BITS = 7
VALUE_FRACTION_BITS = 26
VALUE_BITS = VALUE_FRACTION_BITS + 4  # signed, magnitudes below 8
LOW_BITS = 4  # of c1, which has more bits than a factor of a DSP
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

    def lookup(self, m: Module, u: Value, whole: Value | None = None) -> Value:
        """Add hardware to `m` that computes the table's value for `u`; return the value, `LATENCY` cycles later.

        Args:
            whole: a signed integer that is added to the value and is below the largest of its width, so that the
                sum has as many bits before the point; None: 0.

        Raises:
            ValueError: `whole` is given to a table with a coefficient c0 that is not a fraction, 0 <= c0 < 1.
        """
        firsts = [row[0] for row in self.coefficients]
        if whole is not None and not (min(firsts) >= 0 and max(firsts) < 1 << VALUE_FRACTION_BITS):
            raise ValueError("whole: found a value; allowed for this table, whose c0 leave [0, 1): None")
        places, segment, t = self.place_bits, u[self.place_bits :], u[: self.place_bits]
        c0, c1, c2 = (
            named(m, _rom(m, segment, [row[i] for row in self.coefficients]), f"c{i}") for i in range(3)
        )
        t = registered(m, t, name="t")
        if whole is not None:
            c0 = Cat(c0[:VALUE_FRACTION_BITS], whole).as_signed()
        c0, c1, c2 = (registered(m, value, name="coefficient") for value in (c0, c1, c2))
        # c0 + (c1 + q) t >> places, q = c2 t >> places: a product a stage, and an addition behind it.
        low, high = c1[:LOW_BITS], c1[LOW_BITS:].as_signed()
        bits = (VALUE_BITS if whole is None else VALUE_FRACTION_BITS + whole.shape().width) + places
        begun = registered(m, (c0 << places) + (high * t << LOW_BITS), signed(bits), name="begun")
        low_product = registered(m, low * t, name="low_product")
        q, late = registered(m, (c2 * t) >> places, name="q"), registered(m, t, name="t")
        linear = Signal(signed(bits), name="linear")
        m.d.comb += linear.eq(begun + low_product)
        return registered(m, (linear + q * late) >> places, signed(bits - places), name="value")


def _rom(m: Module, address: Value, words: list[int]) -> Value:
    """Return the signed word of a table at an address, in as many bits as its words need.

    The words at even and at odd addresses are selected last, so that synthesis builds the table of look-up tables: a
    block RAM, whose output would be the register behind the table, has its word nanoseconds later in a cycle.
    """
    shape = signed(max(max(words).bit_length(), (-1 - min(words)).bit_length()) + 1)
    halves = [Signal(shape, name=f"row_{half}") for half in range(2)]
    for half, word in enumerate(halves):
        with m.Switch(address[1:]):
            for number, value in enumerate(words[half::2]):
                with m.Case(number):
                    m.d.comb += word.eq(value)
    return Mux(address[0], halves[1], halves[0])


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
