"""Operators that convert between float32 and fixed point, or scale by a power of two.

Golden models: `primitives.quantization.Q`, `golden.from_fixed` and `golden.scaled`.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data

from placerl.primitives.fpga.floating_point.words import (
    EXPONENT_BIAS,
    FRACTION_BITS,
    INFINITE_EXPONENT,
    WORD_BITS,
    Float,
    Operator,
    normalised,
    packed,
    registered,
    significand,
)

SCALE_BITS = 10  # of a power of two that scales: -512 to 511


class ToFixed(Operator):
    """Converts the float32 number operands[0] to fixed point.

    Rounds to nearest, ties upwards, and saturates, as `Q(bits, fraction_bits).from_float` does. The result is a
    structure: `value`, signed, and `saturated`, whether the number did not fit.

    Args:
        bits: width of the result.
        fraction_bits: how many of them are after the point.
    """

    latency = 2

    def __init__(self, *, bits: int, fraction_bits: int):
        self.bits, self.fraction_bits = bits, fraction_bits
        super().__init__(1, result=data.StructLayout({"value": signed(bits), "saturated": 1}))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, bits = Float(self.operands[0]), self.bits
        # The significand, a fraction of 23 bits, ends up with one bit behind the wanted ones, and a sticky bit.
        limit = bits + 1
        places = Signal(signed(11))  # to the left, from there
        m.d.comb += places.eq(a.exponent - EXPONENT_BIAS - FRACTION_BITS + self.fraction_bits + 1)
        significant = significand(a)
        left = (Cat(significant) << Mux(places > limit, limit, places)[: limit.bit_length()])[: bits + 2]
        lost = Signal(FRACTION_BITS + 1)
        right_places = Mux(-places > FRACTION_BITS + 1, FRACTION_BITS + 1, -places)[:5]
        shifted = Signal(2 * FRACTION_BITS + 2)
        m.d.comb += shifted.eq(Cat(Const(0, FRACTION_BITS + 1), significant) >> right_places)
        m.d.comb += lost.eq(shifted[: FRACTION_BITS + 1])
        to_left = places >= 0
        too_big = registered(
            m, (a.exponent >= EXPONENT_BIAS + bits - self.fraction_bits) & (significant != 0)
        )
        magnitude = registered(m, Mux(to_left, left, shifted[FRACTION_BITS + 1 :])[: bits + 2])
        sticky = registered(m, ~to_left & lost.any())
        sign = registered(m, a.sign)
        # Ties go upwards: of a negative number's magnitude, downwards.
        up = magnitude[0] & (~sign | sticky)
        whole = Signal(bits + 2)
        m.d.comb += whole.eq((magnitude >> 1) + up)
        highest = (1 << bits - 1) - 1
        over = too_big | Mux(sign, whole > highest + 1, whole > highest)
        value = Mux(sign, -whole, whole)[:bits]
        saturated_value = Mux(sign, Const(1 << bits - 1, bits), Const(highest, bits))
        m.d.sync += [self.result.value.eq(Mux(over, saturated_value, value)), self.result.saturated.eq(over)]
        return m


class FromFixed(Operator):
    """Converts the fixed-point number operands[0], signed, to float32, rounded.

    Args:
        bits: width of the operand.
        fraction_bits: how many of them are after the point.
        latency: 2, or 3 for a faster clock, with a register between finding the top bit and rounding.

    Raises:
        ValueError: another latency.
    """

    latency = 2

    def __init__(self, *, bits: int, fraction_bits: int, latency: int = 2):
        if latency not in (2, 3):
            raise ValueError(f"latency: found {latency}; allowed: 2, 3")
        self.bits, self.fraction_bits, self.latency = bits, fraction_bits, latency
        super().__init__(1, operand=signed(bits))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        number, bits = self.operands[0], self.bits
        sign = registered(m, number < 0)
        magnitude = registered(m, abs(number)[:bits])
        zero = magnitude == 0
        normal, places = normalised(magnitude, bits)
        if self.latency == 3:
            sign, zero, normal, places = (registered(m, value) for value in (sign, zero, normal, places))
        exponent = Signal(signed(11))
        m.d.comb += exponent.eq(EXPONENT_BIAS + bits - 1 - self.fraction_bits - places)
        padding = max(0, FRACTION_BITS + 3 - bits)
        word = packed(m, sign, exponent, Cat(Const(0, padding), normal), zero)
        m.d.sync += self.result.eq(word)
        return m


class FromInteger(Operator):
    """Converts the signed 32-bit integer operands[0], such as an index or a pixel, to float32."""

    latency = FromFixed.latency

    def __init__(self) -> None:
        super().__init__(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.convert = convert = FromFixed(bits=WORD_BITS, fraction_bits=0)
        m.d.comb += [
            convert.operands[0].eq(self.operands[0].as_signed()),
            self.result.eq(convert.result),
        ]
        return m


class Scale(Operator):
    """Multiplies the float32 number operands[0] by a power of two.

    The exponent is the low `SCALE_BITS` bits of operands[1], signed.
    """

    latency = 1

    def __init__(self) -> None:
        super().__init__(2)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a = Float(self.operands[0])
        exponent = Signal(signed(SCALE_BITS + 2))
        m.d.comb += exponent.eq(a.exponent + self.operands[1][:SCALE_BITS].as_signed())
        word = Signal(Float)
        m.d.comb += word.sign.eq(a.sign)
        with m.If((a.exponent != 0) & (exponent >= INFINITE_EXPONENT)):
            m.d.comb += word.exponent.eq(INFINITE_EXPONENT)
        with m.Elif((a.exponent != 0) & (exponent > 0)):
            m.d.comb += [word.exponent.eq(exponent), word.fraction.eq(a.fraction)]
        m.d.sync += self.result.eq(word)
        return m
