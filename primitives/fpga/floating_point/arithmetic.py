"""Operators for addition, multiplication, division and square root, which round as IEEE 754."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

from placerl.primitives.fpga.floating_point.words import (
    EXPONENT_BIAS,
    FRACTION_BITS,
    Float,
    Operator,
    is_zero,
    normalised,
    packed,
    registered,
    significand,
)

GUARD_BITS = 3
QUOTIENT_BITS = FRACTION_BITS + 2  # the significand and the bit that rounds it


class Add(Operator):
    """Adds two numbers: the result is operands[0] + operands[1].

    Args:
        subtract: the result is operands[0] - operands[1] instead.
    """

    latency = 3

    def __init__(self, *, subtract: bool = False):
        self.subtract = subtract
        super().__init__(2)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, b = Float(self.operands[0]), Float(self.operands[1])
        b_sign = b.sign ^ self.subtract
        # Stage 1: the larger magnitude first; the other one's significand shifted to its exponent.
        swap = self.operands[0][:31] < self.operands[1][:31]
        large_exponent = Mux(swap, b.exponent, a.exponent)
        distance = Signal(8)
        m.d.comb += distance.eq(large_exponent - Mux(swap, a.exponent, b.exponent))
        small = Cat(Const(0, GUARD_BITS), Mux(swap, significand(a), significand(b)))
        width = FRACTION_BITS + 1 + GUARD_BITS
        wide = Signal(2 * width)
        m.d.comb += wide.eq(Cat(Const(0, width), small) >> Mux(distance < width, distance, width))
        aligned = Cat(wide[width] | wide[:width].any(), wide[width + 1 :])
        differ = registered(m, a.sign ^ b_sign)
        large = registered(m, Cat(Const(0, GUARD_BITS), Mux(swap, significand(b), significand(a))))
        shifted, exponent = registered(m, aligned), registered(m, large_exponent)
        sign = registered(m, Mux(swap, b_sign, a.sign))
        both_negative = registered(m, a.sign & b_sign)
        # Stage 2: the sum of magnitudes or their difference.
        total = registered(m, Mux(differ, large - shifted, large + shifted)[: width + 1])
        exponent, sign, both_negative = (registered(m, v) for v in (exponent, sign, both_negative))
        # Stage 3: normalise, round.
        bits, places = normalised(total, width + 1)
        none = total == 0
        word = packed(m, Mux(none, both_negative, sign), (exponent + 1 - places).as_signed(), bits, none)
        m.d.sync += self.result.eq(word)
        return m


class Multiply(Operator):
    """Multiplies two numbers: the result is operands[0] * operands[1]."""

    latency = 3

    def __init__(self) -> None:
        super().__init__(2)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, b = Float(self.operands[0]), Float(self.operands[1])
        product, sign = significand(a) * significand(b), a.sign ^ b.sign
        exponent = Signal(signed(10))
        m.d.comb += exponent.eq(a.exponent + b.exponent - EXPONENT_BIAS)
        late: list[Value] = [product, sign, exponent, is_zero(a) | is_zero(b)]
        for _ in range(2):  # a multiplier of several DSP slices needs two registers
            late = [registered(m, value) for value in late]
        product, sign, exponent, zero = late
        top = product[-1]
        bits = Mux(top, product, product << 1)[:48]
        m.d.sync += self.result.eq(packed(m, sign, (exponent + top).as_signed(), bits, zero))
        return m


class Divide(Operator):
    """Divides two numbers: the result is operands[0] / operands[1]; division by zero gives an infinity.

    Each stage of the pipeline computes one bit of the quotient.
    """

    latency = QUOTIENT_BITS + 2

    def __init__(self) -> None:
        super().__init__(2)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, b = Float(self.operands[0]), Float(self.operands[1])
        smaller = significand(a) < significand(b)
        exponent = Signal(signed(10))
        by_zero = is_zero(b)
        m.d.comb += exponent.eq(
            Mux(by_zero, 2 * EXPONENT_BIAS + 1, a.exponent - b.exponent + EXPONENT_BIAS - smaller)
        )
        carried: list[Value] = [a.sign ^ b.sign, exponent, is_zero(a) & ~by_zero, significand(b)]
        # The remainder before each stage is below twice the divisor.
        remainder: Value = registered(m, Mux(smaller, significand(a) << 1, significand(a))[:25])
        carried = [registered(m, value) for value in carried]
        quotient: Value = Const(0, 1)
        for stage in range(QUOTIENT_BITS):
            divisor = carried[-1]
            fits = remainder >= divisor
            rest = Mux(fits, remainder - divisor, remainder)[:24]
            remainder = registered(m, Cat(Const(0, 1), rest))
            quotient = registered(m, Cat(fits, quotient) if stage else fits)
            carried = [registered(m, value) for value in carried]
        sign, exponent, zero, _ = carried
        bits = Cat(remainder != 0, quotient)
        m.d.sync += self.result.eq(packed(m, sign, exponent, bits, zero))
        return m


class SquareRoot(Operator):
    """Computes the square root of operands[0], or of its magnitude if it is negative.

    Each stage of the pipeline computes one bit of the root.
    """

    latency = QUOTIENT_BITS + 2

    def __init__(self) -> None:
        super().__init__(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a = Float(self.operands[0])
        # a = 1.f * 2^e, e even after a shift; the root has half of it. Two bits of the radicand a stage.
        odd = ~a.exponent[0]  # the bias is odd
        exponent = Signal(signed(10))
        m.d.comb += exponent.eq((a.exponent + EXPONENT_BIAS - odd) >> 1)
        width = 2 * QUOTIENT_BITS
        start = Mux(odd, significand(a) << 1, significand(a))[:25]
        radicand: Value = registered(m, Cat(Const(0, width - 25), start))
        carried: list[Value] = [registered(m, value) for value in (exponent, is_zero(a))]
        remainder: Value = Const(0, 1)
        root: Value = Const(0, 1)
        for stage in range(QUOTIENT_BITS):
            next_remainder = Cat(radicand[-2:], remainder)
            trial = Cat(Const(1, 2), root)
            fits = next_remainder >= trial
            rest = Mux(fits, next_remainder - trial, next_remainder)
            remainder = registered(m, rest[: stage + 3])
            root = registered(m, Cat(fits, root) if stage else fits)
            radicand = registered(m, Cat(Const(0, 2), radicand[:-2]))
            carried = [registered(m, value) for value in carried]
        exponent, zero = carried
        bits = Cat(remainder != 0, root)
        m.d.sync += self.result.eq(packed(m, None, exponent, bits, zero))
        return m
