"""The fields of a binary32 word, and hardware that several operators share: normalising, rounding, delaying."""

from amaranth.hdl import Cat, Const, Module, Mux, Shape, ShapeLike, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

WORD_BITS = 32
FRACTION_BITS = 23
EXPONENT_BIAS = 127
INFINITE_EXPONENT = 255


# A binary32 number: fraction in the low bits, then exponent and sign.
Float = data.StructLayout({"fraction": FRACTION_BITS, "exponent": 8, "sign": 1})
_Magnitude = data.StructLayout({"fraction": FRACTION_BITS, "exponent": 8})


class Operator(wiring.Component):
    """A pipelined operator, which takes operands and gives a result in every cycle, `latency` cycles later.

    Args:
        operand, result: Amaranth shapes of an operand and of the result; by default words of 32 bits.

    Ports:
        operands: In(count x operand).
        result: Out(result), `latency` cycles later.
    """

    latency: int

    def __init__(self, count: int, *, operand: ShapeLike = WORD_BITS, result: ShapeLike = WORD_BITS):
        super().__init__({"operands": In(data.ArrayLayout(operand, count)), "result": Out(result)})


def is_zero(number: data.View) -> Value:
    """Return whether a binary32 number is zero, as a hardware value; subnormal numbers count as zero."""
    return number.exponent == 0


def significand(number: data.View) -> Value:
    """Return the 24 bits of a binary32 number's significand, including the hidden bit; 0 for zero."""
    return Mux(is_zero(number), 0, Cat(number.fraction, Const(1, 1)))


def registered(m: Module, value: Value, shape: object = None, name: str = "stage") -> Signal:
    """Return `value` delayed by one cycle, in a register that is added to `m`.

    Args:
        shape: Amaranth shape of the register; None: that of `value`.
        name: name of the register.
    """
    register = Signal(Shape.cast(value.shape()) if shape is None else shape, name=name)
    m.d.sync += register.eq(value)
    return register


def delayed(m: Module, value: Value, cycles: int) -> Value:
    """Return `value` delayed by `cycles` cycles, in registers that are added to `m`."""
    for _ in range(cycles):
        value = registered(m, value, name="delay")
    return value


def normalised(value: Value, width: int) -> tuple[Value, Value]:
    """Shift a number to the left until its top bit is 1.

    Args:
        value: unsigned, of `width` bits.

    Returns:
        The shifted number, and by how many bits it is shifted. For 0 these are 0 and at most width - 1.
    """
    places: list[Value] = []
    step = 1 << (width - 1).bit_length() - 1
    while step:
        clear = value[width - step : width] == 0
        value = Mux(clear, value << step, value)[:width]
        places.append(clear)
        step >>= 1
    return value, Cat(*reversed(places))


def packed(m: Module, sign: Value | None, exponent: Value, bits: Value, zero: Value) -> Value:
    """Return a binary32 word that holds a number, rounded to nearest, ties to even.

    Args:
        sign: None for a number that is never negative.
        exponent: biased exponent, signed, of the top bit of `bits`.
        bits: the significand, its top bit 1, with 2 or more bits behind the first 24; the lowest is sticky, that is,
            1 if any bit below it is.
        zero: whether the result is zero, whatever the other arguments are.
    """
    extra = len(bits) - (FRACTION_BITS + 1)
    half = bits[extra - 1]
    sticky = bits[: extra - 1].any()
    kept = bits[extra:]
    up = half & (sticky | kept[0])
    rounded = Signal(FRACTION_BITS + 2, name="rounded")
    final_exponent = Signal(Shape.cast(exponent.shape()).width + 1, name="final_exponent")
    signed_exponent = final_exponent.as_signed()
    m.d.comb += [rounded.eq(kept + up), final_exponent.eq(exponent + rounded[-1])]
    # A sign that never changes would be a block of Verilog that waits for no variable: simulators never run it.
    word = Signal(Float if sign is not None else _Magnitude, name="word")
    if sign is not None:
        m.d.comb += word.sign.eq(sign)
    with m.If(~zero & (signed_exponent >= INFINITE_EXPONENT)):
        m.d.comb += word.exponent.eq(INFINITE_EXPONENT)
    with m.Elif(~zero & (signed_exponent > 0)):
        # A carry out of the fraction leaves zeros in it.
        m.d.comb += [word.exponent.eq(final_exponent), word.fraction.eq(rounded[:FRACTION_BITS])]
    return word.as_value() if sign is not None else Cat(word.as_value(), Const(0, 1))
