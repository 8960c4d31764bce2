"""Operators that convert between float32 and fixed point, or scale by a power of two.

Golden models: `primitives.quantization.Q`, `golden.from_fixed` and `golden.scaled`.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from placerl.primitives.fpga.floating_point.words import (
    EXPONENT_BIAS,
    FRACTION_BITS,
    INFINITE_EXPONENT,
    WORD_BITS,
    ExponentRange,
    Float,
    Operator,
    is_zero,
    leading_zeros,
    named,
    packed,
    registered,
    shifted_left,
)

SCALE_BITS = 10  # of a power of two that scales: -512 to 511
FINE_LEVELS = 1  # of the shift of a conversion to fixed point, in the stage that rounds
FINE_LEFT = 3  # of the shift of a conversion from fixed point, in the stage after the coarse levels


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
        # Stage 1: the significand at the top of a number with one bit behind the wanted ones, shifted to the right
        # by the places that its exponent leaves; the last levels of the shift are for stage 2.
        width = max(bits + 1, FRACTION_BITS + 1)
        unused = width - (
            bits + 1
        )  # bits behind the one that rounds, of a format that is narrower than a significand
        limit = EXPONENT_BIAS + bits - self.fraction_bits  # the first exponent of a number that is too big
        places = Signal(signed(11))
        m.d.comb += places.eq(limit - 1 - a.exponent)
        levels = width.bit_length()
        zero = named(m, is_zero(a), "is_zero")
        all_lost = named(m, ~places[-1] & places[levels:-1].any() | zero, "all_lost")
        number: Value = Cat(Const(0, width - FRACTION_BITS - 1), a.fraction, Const(1, 1))
        number, lost = _shifted_right(m, number, places[FINE_LEVELS:levels], FINE_LEVELS)
        too_big = registered(m, places[-1] & ~zero, name="too_big")
        number = registered(m, Mux(all_lost, 0, number), name="number")
        sticky = registered(m, Mux(all_lost, ~zero, lost), name="sticky")
        fine, sign = registered(m, places[:FINE_LEVELS], name="fine"), registered(m, a.sign, name="sign")
        # Stage 2: the rest of the shift; round and negate in one addition, as -n is ~n + 1.
        number, lost = _shifted_right(m, number, fine, 0)
        below = named(m, sticky | lost | number[:unused].any(), "below") if unused else sticky | lost
        half, whole = number[unused], number[unused + 1 :]
        # Ties go upwards: of a negative number's magnitude, downwards.
        one = Mux(sign, ~(half & below), half)
        total = named(
            m, (Cat(whole ^ sign.replicate(bits), sign, sign) + one)[: bits + 2].as_signed(), "total"
        )
        over = named(m, too_big | (total[bits - 1 :] != total[-1].replicate(3)), "over")
        saturated_value = Cat(~sign.replicate(bits - 1), sign)
        m.d.sync += [
            self.result.value.eq(Mux(over, saturated_value, total[:bits])),
            self.result.saturated.eq(over),
        ]
        return m


def _shifted_right(m: Module, number: Value, places: Value, lowest: int) -> tuple[Value, Value]:
    """Return a number shifted to the right, and whether a 1 left it.

    Args:
        places: how often to shift by 2^lowest places; its highest bit is the first level.
    """
    lost: Value = Const(0, 1)
    for level in reversed(range(len(places))):
        step = min(1 << level + lowest, len(number))
        lost = named(m, lost | places[level] & number[:step].any(), "lost")
        moved = Cat(number[step:], Const(0, step))
        number = named(m, Mux(places[level], moved, number), f"right_{step}")
    return number, lost


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
        # -n is ~n + 1; ~n shifted to the left, with ones that follow, + 1, is -n shifted. The rounding adds that 1.
        padding = max(0, FRACTION_BITS + 3 - self.bits)
        padding += (self.bits + padding).bit_count() == 1  # so that -1, whose ~n is 0, is counted, too
        width = self.bits + padding
        word = self.operands[0].as_unsigned()
        sign = named(m, word[-1], "sign")
        number = named(m, Cat(sign.replicate(padding), word ^ sign.replicate(self.bits)), "number")
        # Stage 1: how far to the left; the coarse levels of the shift.
        count, _ = leading_zeros(m, number)
        coarse = shifted_left(m, number, count[FINE_LEFT:], sign, lowest=FINE_LEFT)
        late: list[Value] = [registered(m, value) for value in (sign, ~word.any(), count, coarse)]
        # Stage 2: its fine levels.
        sign, zero, count, coarse = late
        normal: Value = shifted_left(m, coarse, count[:FINE_LEFT], sign)
        extra = width - (FRACTION_BITS + 1)
        # What is behind the bit that rounds: where no fine level moves it to, it need not wait for them.
        settled = max(0, extra - (1 << FINE_LEFT))
        behind: Value = named(m, (coarse[:settled] ^ sign.replicate(settled)).any(), "behind")
        if self.latency == 3:
            sign, zero, count, normal, behind = (
                registered(m, value) for value in (sign, zero, count, normal, behind)
            )
        behind = named(
            m, behind | (normal[settled : extra - 1] ^ sign.replicate(extra - 1 - settled)).any(), "rest"
        )
        # The last stage: round. Without a rest -n ends with the bit that rounds or, if that is 1, is a whole number.
        half, last = normal[extra - 1], normal[extra]
        up = Mux(behind, half, Mux(sign, half | last, half & last))
        highest = EXPONENT_BIAS + self.bits - 1 - self.fraction_bits
        exponent = named(m, (highest - count).as_signed(), "exponent")
        inside = highest - self.bits > 0 and highest + 1 < INFINITE_EXPONENT
        where = ExponentRange.inside() if inside else None
        m.d.sync += self.result.eq(packed(m, sign, exponent, normal[extra:], up, zero, where))
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
