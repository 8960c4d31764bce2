"""The fields of a binary32 word, and hardware that several operators share: normalising, rounding, delaying."""

from dataclasses import dataclass

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


def named(m: Module, value: Value, name: str) -> Signal:
    """Return a signal of `m` that has `value`, so that hardware which uses it twice does not repeat its expression.

    Simulators in Python compute an expression wherever it stands: nested ones would take exponential time.
    """
    signal = Signal(Shape.cast(value.shape()), name=name)
    m.d.comb += signal.eq(value)
    return signal


def shifted_left(
    m: Module, value: Value, places: Value, fill: Value | None = None, *, lowest: int = 0
) -> Signal:
    """Return a number shifted to the left, of the width of `value`, with a signal for each level.

    Args:
        places: by how often 2^lowest places, unsigned; its highest bit is the first level.
        fill: the bit that follows on the right; None: 0.
    """
    width = len(value)
    for level in reversed(range(len(places))):
        step = min(1 << level + lowest, width)
        moved = Cat((Const(0, 1) if fill is None else fill).replicate(step), value[: width - step])
        value = named(m, Mux(places[level], moved, value), f"left_{step}")
    return named(m, value, "shifted")


def leading_zeros(m: Module, value: Value) -> tuple[Signal, Signal]:
    """Return the number of zeros above the highest 1 of a number, and whether it has no 1.

    Args:
        value: unsigned, of two or more bits. Those that it lacks to a power of two are taken for ones below it.

    Returns:
        The number of zeros, in as many bits as a position in the number takes: of no meaning if there is no 1 and the
        width is a power of two; and whether there is none.
    """
    width = len(value)
    levels = (width - 1).bit_length()
    filled = named(m, Cat(Const(-1, (1 << levels) - width), value), "filled")
    # Pairs, then groups of twice as many bits, lowest first: whether it has no 1, and the zeros above its highest.
    nones = [named(m, ~filled[low : low + 2].any(), "none") for low in range(0, 1 << levels, 2)]
    counts = [named(m, ~filled[low + 1], "zeros") for low in range(0, 1 << levels, 2)]
    while len(counts) > 1:
        pairs = [(low, low + 1) for low in range(0, len(counts), 2)]
        counts = [
            named(m, Cat(Mux(nones[high], counts[low], counts[high]), nones[high]), "zeros")
            for low, high in pairs
        ]
        nones = [named(m, nones[low] & nones[high], "none") for low, high in pairs]
    return counts[0], nones[0] if width == 1 << levels else named(m, value == 0, "none")


@dataclass(frozen=True)
class ExponentRange:
    """Where a biased exponent is, before rounding: hardware values of one bit.

    Attributes:
        below: it is below 0.
        zero: it is 0: the number is too small unless rounding carries into the exponent.
        above: it is `INFINITE_EXPONENT` or more.
    """

    below: Value
    zero: Value
    above: Value

    @classmethod
    def of(cls, exponent: Value) -> "ExponentRange":
        """Return the range of a signed exponent of 9 or more bits."""
        sign = exponent[-1]
        return cls(
            sign,
            exponent == 0,
            ~sign & (exponent[8:-1].any() | exponent[:8].all()),
        )

    @classmethod
    def inside(cls) -> "ExponentRange":
        """Return the range of an exponent of a normal number, 1 to 254."""
        return cls(Const(0, 1), Const(0, 1), Const(0, 1))

    @classmethod
    def either(cls, condition: Value, yes: "ExponentRange", no: "ExponentRange") -> "ExponentRange":
        """Return one of two ranges."""
        return cls(
            Mux(condition, yes.below, no.below),
            Mux(condition, yes.zero, no.zero),
            Mux(condition, yes.above, no.above),
        )

    def named(self, m: Module) -> "ExponentRange":
        """Return the range with its bits in signals of `m`."""
        return ExponentRange(
            named(m, self.below, "below"), named(m, self.zero, "lowest"), named(m, self.above, "above")
        )

    def registered(self, m: Module) -> "ExponentRange":
        """Return the range one cycle later."""
        return ExponentRange(
            registered(m, self.below, name="below"),
            registered(m, self.zero, name="lowest"),
            registered(m, self.above, name="above"),
        )


def packed(
    m: Module,
    sign: Value | None,
    exponent: Value,
    kept: Value,
    up: Value,
    zero: Value,
    where: ExponentRange | None = None,
) -> Value:
    """Return a binary32 word that holds a rounded number.

    The fraction and the exponent are one number to which rounding adds a bit, so that the carry of the one into the
    other takes no time of its own; whether the number is too small or too large does not wait for the sum.

    Args:
        sign: None for a number that is never negative.
        exponent: biased exponent, signed, of the top bit of `kept`.
        kept: the 24 bits of the significand, the top one 1; it may be left out.
        up: whether to add 1 to the last of them.
        zero: whether the result is zero, whatever the other arguments are.
        where: the exponent's range, if it was known before; None: found here.
    """
    where = (ExponentRange.of(exponent) if where is None else where).named(m)
    fraction = named(m, kept[:FRACTION_BITS], "kept")
    increment = named(m, up, "up")
    total = Signal(FRACTION_BITS + 8, name="rounded")
    m.d.comb += total.eq(Cat(fraction, exponent[:8]) + increment)
    carry = named(m, fraction.all() & increment, "carry")
    none = named(m, zero | where.below | where.zero & ~carry, "too_small")
    # A sign that never changes would be a block of Verilog that waits for no variable: simulators never run it.
    word = Signal(Float if sign is not None else _Magnitude, name="word")
    if sign is not None:
        m.d.comb += word.sign.eq(sign)
    lost = named(m, none | where.above, "lost")
    infinite = named(m, ~none & where.above, "infinite")
    m.d.comb += [
        word.fraction.eq(Mux(lost, 0, total[:FRACTION_BITS])),
        word.exponent.eq(Mux(lost, infinite.replicate(8), total[FRACTION_BITS:])),
    ]
    return word.as_value() if sign is not None else Cat(word.as_value(), Const(0, 1))


def nearest_even(m: Module, bits: Value) -> tuple[Value, Value]:
    """Return the upper 24 bits of a number, and whether to add 1 to them: to nearest, ties to even.

    Args:
        bits: 26 or more; the lowest is sticky, that is, 1 if any bit below it is.
    """
    extra = len(bits) - (FRACTION_BITS + 1)
    kept = bits[extra:]
    return kept, named(m, bits[extra - 1] & (bits[: extra - 1].any() | kept[0]), "up")
