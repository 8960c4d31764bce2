"""Operators for addition, multiplication, division and square root, which round as IEEE 754."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from placerl.primitives.fpga.floating_point.words import (
    EXPONENT_BIAS,
    FRACTION_BITS,
    INFINITE_EXPONENT,
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

GUARD_BITS = 3
SUM_BITS = FRACTION_BITS + 1 + GUARD_BITS
QUOTIENT_BITS = FRACTION_BITS + 2  # the significand and the bit that rounds it
FACTOR_BITS = 12  # of a part of a factor: behind a product of two multipliers of 18 bits the sum is short


class Add(Operator):
    """Adds two numbers: the result is operands[0] + operands[1].

    There are two paths, so that no stage both shifts by many places and rounds. The difference of numbers whose
    exponents are equal or neighbours may lose many leading bits, but is exact then: the near path. Every other sum
    begins at the larger number's top bit, one above or one below it: the far path, which rounds.

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
        b_sign = named(m, b.sign ^ self.subtract, "b_sign")
        wholes = [Cat(number.fraction, Const(1, 1)) for number in (a, b)]  # a zero's is not used

        # Stage 1: the larger magnitude first; the other one is shifted by some bits of the distance of the exponents.
        swap = named(m, self.operands[0][:31] < self.operands[1][:31], "swap")
        forth, back = named(m, a.exponent - b.exponent, "forth"), named(m, b.exponent - a.exponent, "back")
        distance = named(m, Mux(forth[8], back, forth)[:8], "distance")
        # The lowest bit does not depend on the order, nor does it wait for a subtraction.
        odd = named(m, a.exponent[0] ^ b.exponent[0], "odd")
        halves = [
            named(m, Mux(odd, Cat(whole, Const(0, 1)), Cat(Const(0, 1), whole)), "halved") for whole in wholes
        ]
        small = named(m, Mux(swap, halves[0], halves[1]), "small")
        by_8 = named(m, _right(m, Cat(Const(0, GUARD_BITS - 1), small), distance[3], 8), "by_8")
        by_16 = _right(m, by_8, distance[4], 16)
        # Whether a 1 leaves on the right with 8, 16 or 24 places, for both numbers.
        leave = [
            Cat(named(m, half[: 8 * steps - GUARD_BITS + 1].any(), "leave") for steps in (1, 2, 3))
            for half in halves
        ]
        leaves = named(m, Mux(swap, leave[0], leave[1]), "leaves")
        left = Mux(distance[4], Mux(distance[3], leaves[2], leaves[1]), distance[3] & leaves[0])
        zeros = [named(m, is_zero(number), "is_zero") for number in (a, b)]
        one_zero, no_number = named(m, zeros[0] | zeros[1], "one_zero"), zeros[0] & zeros[1]
        beyond = named(m, distance[5:].any(), "beyond")
        differ = named(m, a.sign ^ b_sign, "differ")
        neighbours = registered(m, differ & (distance[1:] == 0) & ~one_zero, name="neighbours")
        sign = registered(m, Mux(no_number, a.sign & b_sign, Mux(swap, b_sign, a.sign)), name="sign")
        exponent = registered(m, Mux(swap, b.exponent, a.exponent), name="exponent")
        large = registered(m, Mux(swap, wholes[1], wholes[0]), name="large")
        beside, aligned = registered(m, small, name="beside"), registered(m, by_16, name="aligned")
        fine, gone = registered(m, distance[1:3], name="fine"), registered(m, beyond | one_zero, name="gone")
        sticky = registered(m, ~one_zero & (beyond | left), name="sticky")
        differ, no_number = registered(m, differ, name="differs"), registered(m, no_number, name="no_number")

        # Stage 2, far: the rest of the shift, then the sum of magnitudes or their difference.
        still = named(m, Mux(gone, 0, aligned), "still")
        by_4 = _right(m, still, fine[1], 4)
        by_2 = _right(m, by_4, fine[0], 2)
        lost = sticky | fine[1] & still[:4].any() | fine[0] & by_4[:2].any()
        added = named(m, Cat(by_2[0] | lost, by_2[1:]) ^ differ.replicate(SUM_BITS), "added")
        # The carry out of the lowest bit makes the inverted number a negative one.
        wide = Cat(Const(1, 1), Const(0, GUARD_BITS), large) + Cat(differ, added, differ)
        total = registered(m, wide[1 : SUM_BITS + 2], name="total")
        # Stage 2, near: the difference is exact if its top bit is 0; otherwise the far path rounds it.
        difference = named(m, (Cat(Const(0, 1), large) - beside)[: FRACTION_BITS + 2], "difference")
        places, equal = leading_zeros(m, difference[:-1])
        near = registered(m, neighbours & ~difference[-1] | no_number, name="near")
        none = registered(m, equal | no_number, name="none")
        sign = registered(m, sign & ~(neighbours & equal & ~difference[-1]), name="sign_2")
        before = registered(m, (exponent - 1)[:8], name="before")
        highest = [registered(m, exponent == INFINITE_EXPONENT - n, name=f"highest_{n}") for n in (0, 1)]
        rest, places = registered(m, difference[:-1], name="rest"), registered(m, places, name="places")
        exponent = registered(m, exponent, name="exponent_2")

        # Stage 3, near: normalise. The exponent is at least 1, unless there is no number.
        normal = shifted_left(m, rest, places)
        small_exponent = named(m, (before - places)[:8], "small_exponent")
        too_small = named(m, none | (before <= places), "too_small")
        exact = named(m, Mux(too_small, 0, Cat(normal[:FRACTION_BITS], small_exponent)), "exact")
        # Stage 3, far: round. The exponent changes with the top bit's place, in the addition that rounds. It stays
        # above 0: a number of which this path takes a neighbour off has a larger one than 2.
        above, middle = total[-1], total[-2]
        ups = [
            named(m, total[n] & (total[:n].any() | total[n + 1]), f"up_{n}")
            for n in range(GUARD_BITS - 2, GUARD_BITS + 1)
        ]
        kept, up = (
            named(m, Mux(above, cases[2], Mux(middle, cases[1], cases[0])), name)
            for name, cases in (
                ("kept", [total[n : n + FRACTION_BITS] for n in range(GUARD_BITS - 1, GUARD_BITS + 2)]),
                ("up", ups),
            )
        )
        lower = named(m, ~above & ~middle, "lower")
        change = Cat(up, Const(0, FRACTION_BITS - 1), above | lower, lower.replicate(7))
        rounded = named(m, (Cat(kept, exponent) + change)[: FRACTION_BITS + 8], "rounded")
        infinite = named(m, highest[0] & ~lower | highest[1] & above, "infinite")
        word = Signal(Float)
        m.d.comb += [
            word.sign.eq(sign),
            word.fraction.eq(Mux(near, exact[:FRACTION_BITS], Mux(infinite, 0, rounded[:FRACTION_BITS]))),
            word.exponent.eq(
                Mux(near, exact[FRACTION_BITS:], infinite.replicate(8) | rounded[FRACTION_BITS:])
            ),
        ]
        m.d.sync += self.result.eq(word)
        return m


def _right(m: Module, value: Value, moves: Value, places: int) -> Signal:
    """Return a number shifted to the right by a number of places, or as it is."""
    return named(m, Mux(moves, value >> places, value)[: len(value)], f"right_{places}")


class Multiply(Operator):
    """Multiplies two numbers: the result is operands[0] * operands[1]."""

    latency = 3

    def __init__(self) -> None:
        super().__init__(2)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, b = Float(self.operands[0]), Float(self.operands[1])
        # Stage 1: the products of one number and both parts of the other.
        left, right = (Cat(number.fraction, Const(1, 1)) for number in (a, b))
        low = registered(m, left * right[:FACTOR_BITS], name="low")
        high = registered(m, left * right[FACTOR_BITS:], name="high")
        sign = registered(m, a.sign ^ b.sign, name="sign")
        zero = registered(m, is_zero(a) | is_zero(b), name="zero")
        both = registered(m, a.exponent + b.exponent, name="both")
        # Stage 2: their sum; the exponents if the product's top bit is 0 and if it is 1.
        upper = registered(m, (low[FACTOR_BITS:] + high)[: len(high)], name="upper")
        sticky = registered(m, low[:FACTOR_BITS].any(), name="sticky")
        exponents, ranges = [], []
        for bias in (EXPONENT_BIAS, EXPONENT_BIAS - 1):
            exponents.append(registered(m, (both - bias)[:8], name="exponent"))
            limits = ExponentRange(both < bias, both == bias, both >= bias + INFINITE_EXPONENT)
            ranges.append(limits.registered(m))
        sign, zero = registered(m, sign, name="sign_2"), registered(m, zero, name="zero_2")
        # Stage 3: round.
        top = upper[-1]
        extra = len(upper) - (FRACTION_BITS + 1)
        ups = [
            named(m, upper[n] & (sticky | upper[:n].any() | upper[n + 1]), f"up_{n}")
            for n in (extra - 2, extra - 1)
        ]
        kept = Mux(top, upper[extra:], upper[extra - 1 : -1])
        word = packed(
            m,
            sign,
            Mux(top, exponents[1], exponents[0]),
            kept,
            Mux(top, ups[1], ups[0]),
            zero,
            ExponentRange.either(top, ranges[1], ranges[0]),
        )
        m.d.sync += self.result.eq(word)
        return m


class Divide(Operator):
    """Divides two numbers: the result is operands[0] / operands[1]; division by zero gives an infinity.

    Each stage of the pipeline computes one bit of the quotient. A quotient is never half-way between two numbers: it
    would have a bit more than them, and so would its product with the divisor.
    """

    latency = QUOTIENT_BITS + 2

    def __init__(self) -> None:
        super().__init__(2)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, b = Float(self.operands[0]), Float(self.operands[1])
        dividend, divisor = (Cat(number.fraction, Const(1, 1)) for number in (a, b))
        smaller = named(m, dividend < divisor, "smaller")
        by_zero = named(m, is_zero(b), "by_zero")
        # The remainder before each stage is below twice the divisor.
        remainder = registered(
            m, Mux(smaller, dividend << 1, dividend)[: FRACTION_BITS + 2], name="remainder"
        )
        divisor = registered(m, divisor, name="divisor")
        sign = registered(m, a.sign ^ b.sign, name="sign")
        zero = registered(m, is_zero(a) & ~by_zero, name="zero")
        by_zero, smaller = registered(m, by_zero, name="by_zero_2"), registered(m, smaller, name="smaller_2")
        difference = registered(m, (a.exponent - b.exponent).as_signed(), name="exponents")
        exponent = Mux(by_zero, INFINITE_EXPONENT, difference + (EXPONENT_BIAS - smaller))
        carried: list[Value] = [sign, zero, named(m, exponent.as_signed(), "exponent")]
        quotient: Value = Const(0, 1)
        for stage in range(QUOTIENT_BITS):
            rest = named(m, (remainder - divisor)[: FRACTION_BITS + 3], "rest")
            fits = ~rest[-1]
            remainder = registered(
                m, Cat(Const(0, 1), Mux(fits, rest, remainder)[: FRACTION_BITS + 1]), name="remainder"
            )
            if stage:  # the first bit is always 1
                quotient = registered(m, Cat(fits, quotient) if stage > 1 else fits, name="quotient")
            carried = [registered(m, value) for value in carried]
            divisor = registered(m, divisor, name="divisor")
        sign, zero, exponent = carried
        m.d.sync += self.result.eq(packed(m, sign, exponent, quotient[1:], quotient[0], zero))
        return m


class SquareRoot(Operator):
    """Computes the square root of operands[0], or of its magnitude if it is negative.

    Each stage of the pipeline computes one bit of the root. A root is never half-way between two numbers: it would have
    a bit more than them, and so its square twice as many.
    """

    latency = QUOTIENT_BITS + 2

    def __init__(self) -> None:
        super().__init__(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a = Float(self.operands[0])
        # a = 1.f * 2^e, e even after a shift; the root has half of it. Two bits of the radicand a stage.
        odd = ~a.exponent[0]  # the bias is odd
        exponent = Signal(8)
        m.d.comb += exponent.eq((a.exponent + EXPONENT_BIAS - odd) >> 1)
        width = 2 * QUOTIENT_BITS
        whole = Cat(a.fraction, Const(1, 1))
        start = Mux(odd, whole << 1, whole)[: FRACTION_BITS + 2]
        radicand: Value = registered(m, Cat(Const(0, width - FRACTION_BITS - 2), start), name="radicand")
        carried: list[Value] = [registered(m, value) for value in (exponent, is_zero(a))]
        remainder: Value = Const(0, 1)
        root: Value = Const(0, 1)
        for stage in range(QUOTIENT_BITS):
            next_remainder = Cat(radicand[-2:], remainder)
            trial = Cat(Const(1, 2), root)
            rest = named(m, next_remainder - trial, "rest")
            fits = ~rest[-1]
            remainder = registered(m, Mux(fits, rest, next_remainder)[: stage + 3], name="remainder")
            root = registered(m, Cat(fits, root) if stage else fits, name="root")
            radicand = registered(m, Cat(Const(0, 2), radicand[:-2]), name="radicand")
            carried = [registered(m, value) for value in carried]
        exponent, zero = carried
        word = packed(m, None, exponent, root[1:], root[0], zero, ExponentRange.inside())
        m.d.sync += self.result.eq(word)
        return m
