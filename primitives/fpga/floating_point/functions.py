"""Operators computed with tables: exponential and logarithm, and tanh, expm1 and log1p near zero.

Errors relative to the value: `Exponential` 2e-7 + |x| 1.2e-7, `Logarithm` 2e-7 plus 5e-8 absolute, `NearZero` 4e-7.
"""

import math

import numpy as np
from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed

from placerl.primitives.fpga.floating_point import golden, tables
from placerl.primitives.fpga.floating_point.arithmetic import Multiply
from placerl.primitives.fpga.floating_point.convert import FromFixed, ToFixed
from placerl.primitives.fpga.floating_point.golden import Array
from placerl.primitives.fpga.floating_point.words import (
    EXPONENT_BIAS,
    FRACTION_BITS,
    INFINITE_EXPONENT,
    Float,
    Operator,
    delayed,
    named,
    nearest_even,
    packed,
)
from placerl.primitives.quantization import Q

_LOG2_E, _LN_2 = np.float32(math.log2(math.e)), np.float32(math.log(2))
_POWER = Q(32, 22)
_NEAR_ZERO = Q(32, 23)
_LOGARITHM_BITS = 9 + tables.VALUE_FRACTION_BITS


def _bits(number: np.float32) -> int:
    return int(number.view(np.uint32))


class Exponential(Operator):
    """Computes e^x of x = operands[0], as 2^k 2^f.

    k and f are the integer and the fraction of x log2(e), with 22 bits after the point; 2^f comes from a table.
    """

    latency = Multiply.latency + ToFixed.latency + tables.LATENCY + 1

    def __init__(self) -> None:
        super().__init__(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.multiply = multiply = Multiply()
        m.submodules.convert = convert = ToFixed(bits=_POWER.bits, fraction_bits=_POWER.fraction_bits)
        m.d.comb += [multiply.operands[0].eq(self.operands[0]), multiply.operands[1].eq(_bits(_LOG2_E))]
        m.d.comb += convert.operands[0].eq(multiply.result)
        fraction = convert.result.value[: _POWER.fraction_bits]
        exponent = Signal(signed(12))
        m.d.comb += exponent.eq((convert.result.value >> _POWER.fraction_bits) + EXPONENT_BIAS)
        value = tables.power_of_two().lookup(m, fraction)
        # Near a segment's ends the value may leave [0, 1) because of rounding.
        inside = Mux(value < 0, 0, Mux(value[tables.VALUE_FRACTION_BITS], -1, value))[
            : tables.VALUE_FRACTION_BITS
        ]
        late = delayed(m, exponent, tables.LATENCY)
        kept, up = nearest_even(m, Cat(named(m, inside, "inside"), Const(1, 1)))
        word = packed(m, None, late.as_signed(), kept, up, Const(0, 1))
        m.d.sync += self.result.eq(word)
        return m


def exponential(x: Array) -> Array:
    """Return the results of the operator `Exponential` for float32 numbers x, about e^x: its golden model."""
    raw = _POWER.from_float(golden.multiply(x, np.full_like(x, _LOG2_E))).raw.astype(np.int64)
    value = tables.power_of_two().golden(raw & (1 << _POWER.fraction_bits) - 1)
    one = 1 << tables.VALUE_FRACTION_BITS
    mantissa = (np.clip(value, 0, one - 1) + one).astype(np.float64) / one
    with np.errstate(over="ignore"):
        return golden.rounded(np.ldexp(mantissa, raw >> _POWER.fraction_bits))


class Logarithm(Operator):
    """Computes the natural logarithm of operands[0], a positive number; of zero it gives about -88."""

    latency = tables.LATENCY + FromFixed.latency + Multiply.latency

    def __init__(self) -> None:
        super().__init__(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a = Float(self.operands[0])
        m.submodules.convert = convert = FromFixed(
            bits=_LOGARITHM_BITS, fraction_bits=tables.VALUE_FRACTION_BITS
        )
        m.submodules.multiply = multiply = Multiply()
        zero = a.exponent == 0
        exponent = named(m, (a.exponent - EXPONENT_BIAS).as_signed(), "exponent")
        value = tables.logarithm().lookup(m, Mux(zero, 0, a.fraction)[:FRACTION_BITS], exponent)
        m.d.comb += convert.operands[0].eq(value)
        m.d.comb += [multiply.operands[0].eq(convert.result), multiply.operands[1].eq(_bits(_LN_2))]
        m.d.comb += self.result.eq(multiply.result)
        return m


def logarithm(x: Array) -> Array:
    """Return the results of the operator `Logarithm` for float32 numbers x, about ln x: its golden model."""
    words = golden.flushed(x).view(np.uint32).astype(np.int64)
    value = tables.logarithm().golden(words & (1 << FRACTION_BITS) - 1)
    whole = (words >> FRACTION_BITS & INFINITE_EXPONENT) - EXPONENT_BIAS
    exact = (whole << tables.VALUE_FRACTION_BITS) + value
    log2 = golden.from_fixed(exact, tables.VALUE_FRACTION_BITS)
    return golden.multiply(log2, np.full_like(log2, _LN_2))


class NearZero(Operator):
    """Computes f(x) of x = operands[0] near zero, as x times f(x) / x, which comes from a table.

    Args:
        name: name of the function f: "tanh" or "expm1", for |x| < 1, or "log1p", for -1/2 < x < 1.
    """

    latency = ToFixed.latency + tables.LATENCY + FromFixed.latency + Multiply.latency

    def __init__(self, name: str):
        self.name = name
        super().__init__(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.to_fixed = to_fixed = ToFixed(
            bits=_NEAR_ZERO.bits, fraction_bits=_NEAR_ZERO.fraction_bits
        )
        m.submodules.from_fixed = from_fixed = FromFixed(
            bits=tables.VALUE_BITS, fraction_bits=tables.VALUE_FRACTION_BITS
        )
        m.submodules.multiply = multiply = Multiply()
        # fixed + 1, limited to the table: only the bits before the point change.
        fixed = to_fixed.result.value
        whole, low = fixed[_NEAR_ZERO.fraction_bits :].as_signed(), fixed[: _NEAR_ZERO.fraction_bits]
        inside = Cat(low, ~whole[0])
        limit = ~fixed[-1].replicate(_NEAR_ZERO.fraction_bits + 1)
        u = Mux((whole == 0) | (whole == -1), inside, limit)
        m.d.comb += [
            to_fixed.operands[0].eq(self.operands[0]),
            from_fixed.operands[0].eq(tables.ratio(self.name).lookup(m, u)),
            multiply.operands[0].eq(from_fixed.result),
            multiply.operands[1].eq(delayed(m, self.operands[0], self.latency - Multiply.latency)),
            self.result.eq(multiply.result),
        ]
        return m


def near_zero(name: str, x: Array) -> Array:
    """Return the results of the operator `NearZero` for float32 numbers: its golden model.

    Args:
        name: name of the function: "tanh", "expm1" or "log1p".
    """
    one = 1 << _NEAR_ZERO.fraction_bits
    fixed = _NEAR_ZERO.from_float(golden.flushed(x)).raw.astype(np.int64)
    value = tables.ratio(name).golden(np.clip(fixed + one, 0, 2 * one - 1))
    return golden.multiply(golden.from_fixed(value, tables.VALUE_FRACTION_BITS), x)
