"""Adam in fixed point, for one weight per cycle (FIX III).

    m' = m + B1 (g - m)          B1 = 6554 / 2^16, for 1 - 0.9
    v' = v + 2^-10 (g g - v)     in the place of 1 - 0.999
    w' = w - rate m' / (sqrt(v') + epsilon)
    t' = t + tau (w' - t)        the target network

`rate` holds the corrections for the moments' bias, which change with the step's number and are the host's to compute
(`corrections`). A root and a division take a register per digit. FIX states neither formats nor an algorithm; where
a second moment is rounded, downwards, it never falls below 2^-38 again once it was above.
"""

import math

import numpy as np
from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from numpy.typing import NDArray

from placerl.primitives.fpga.cartpole_agent.lane import saturated
from placerl.primitives.fpga.fixar.shape import (
    GRADIENTS,
    MEAN_BITS,
    MEAN_FRACTION,
    SQUARE_BITS,
    SQUARE_FRACTION,
    WEIGHTS,
    WORD_BITS,
)
from placerl.primitives.fpga.gemm.systolic_array import delayed

Integers = NDArray[np.int64]

MEAN_GAIN, MEAN_GAIN_SHIFT = 6554, 16
SQUARE_SHIFT = 10
ROOT_BITS = SQUARE_BITS // 2
QUOTIENT_BITS, QUOTIENT_FRACTION = 24, 16
RATE_FRACTION = 40
RATE_BITS = 32
TAU_FRACTION = 16
_LIFT = MEAN_FRACTION - GRADIENTS.fraction_bits  # of a gradient to a mean
_NUMERATOR_LIFT = QUOTIENT_FRACTION + SQUARE_FRACTION // 2 - MEAN_FRACTION
_STEP_SHIFT = QUOTIENT_FRACTION + RATE_FRACTION - WEIGHTS.fraction_bits
MOMENT_LATENCY = 2
STEP_LATENCY = MOMENT_LATENCY + ROOT_BITS + 1 + QUOTIENT_BITS + 1
"""Cycles from a gradient to the change of its weight."""


def corrections(learning_rate: float, step: int, epsilon: float = 1e-8) -> tuple[int, int]:
    """Return the integers `rate` and `epsilon` of an update.

    Args:
        step: number of the update, from 1.
        epsilon: Adam's; at least one unit of the root, 2^-24, is used.

    Raises:
        ValueError: the corrected rate is negative, or does not fit its 32 bits: it is 2^-8 or more.
    """
    root = math.sqrt(1 - (1 - 2.0**-SQUARE_SHIFT) ** step)
    bias = 1 - (1 - MEAN_GAIN / (1 << MEAN_GAIN_SHIFT)) ** step
    rate = round(learning_rate * root / bias * (1 << RATE_FRACTION))
    if not 0 <= rate < 1 << RATE_BITS:
        raise ValueError(
            f"learning_rate: found {learning_rate}, which step {step} corrects to {rate / 2**RATE_FRACTION:.3g}; "
            f"allowed: 0 or more, and corrected below {2.0 ** (RATE_BITS - RATE_FRACTION)}"
        )
    return rate, max(1, round(epsilon * root * (1 << SQUARE_FRACTION // 2)))


def rounded(values: Integers, places: int) -> Integers:
    """Return values / 2^places, rounded to the nearest integer, ties upwards."""
    return (values + (1 << places - 1)) >> places


def limited(values: Integers, bits: int) -> Integers:
    """Return values limited to the range of two's complement with `bits` bits."""
    return np.clip(values, -(1 << bits - 1), (1 << bits - 1) - 1)


class FixedAdamLane(wiring.Component):
    """Adam's moments and the change of one weight per cycle.

    Ports:
        gradient: In(signed(32)), mean: In(signed(40)), square: In(56).
        rate: In(32), epsilon: In(24), constant during an update.
        new_mean: Out(signed(40)), new_square: Out(56), `MOMENT_LATENCY` cycles later.
        change: Out(signed(33)), to be subtracted from the weight, `STEP_LATENCY` cycles after the gradient.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "gradient": In(signed(WORD_BITS)),
                "mean": In(signed(MEAN_BITS)),
                "square": In(SQUARE_BITS),
                "rate": In(RATE_BITS),
                "epsilon": In(24),
                "new_mean": Out(signed(MEAN_BITS)),
                "new_square": Out(SQUARE_BITS),
                "change": Out(signed(WORD_BITS + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        power = Signal(2 * WORD_BITS)
        distance = Signal(signed(MEAN_BITS + 2))
        mean, square = Signal(signed(MEAN_BITS)), Signal(SQUARE_BITS)
        gradient = self.gradient
        m.d.sync += [
            power.eq(gradient * gradient),
            distance.eq((gradient << _LIFT) - self.mean),
            mean.eq(self.mean),
            square.eq(self.square),
        ]
        limit = (1 << SQUARE_BITS) - 1
        moved_mean = (distance * MEAN_GAIN + (1 << MEAN_GAIN_SHIFT - 1)) >> MEAN_GAIN_SHIFT
        limited_power = Signal(SQUARE_BITS)
        m.d.comb += limited_power.eq(Mux(power > limit, limit, power))
        m.d.sync += [
            self.new_mean.eq(saturated(m, mean + moved_mean, MEAN_BITS)),
            self.new_square.eq(square - (square >> SQUARE_SHIFT) + (limited_power >> SQUARE_SHIFT)),
        ]
        root = _root(m, self.new_square)
        numerator = Signal(MEAN_BITS + _NUMERATOR_LIFT)
        size, negative = Signal(MEAN_BITS), Signal()
        m.d.comb += [negative.eq(self.new_mean < 0), size.eq(Mux(negative, -self.new_mean, self.new_mean))]
        m.d.comb += numerator.eq(delayed(m, size, ROOT_BITS + 1) << _NUMERATOR_LIFT)
        divisor = Signal(ROOT_BITS + 1)
        m.d.sync += divisor.eq(root + self.epsilon)
        quotient = _quotient(m, numerator, divisor)
        step = Signal(WORD_BITS)
        product = Signal(QUOTIENT_BITS + 32)
        m.d.comb += product.eq(quotient * self.rate)
        m.d.comb += step.eq((product + (1 << _STEP_SHIFT - 1)) >> _STEP_SHIFT)
        downwards = delayed(m, negative, ROOT_BITS + 1 + QUOTIENT_BITS)
        m.d.sync += self.change.eq(Mux(downwards, -step, step))
        return m


def _root(m: Module, square: Value) -> Value:
    """Return the integer part of a root, `ROOT_BITS` cycles later: a register for each digit."""
    left: Value = square
    remainder: Value = Const(0, ROOT_BITS + 2)
    root: Value = Const(0, ROOT_BITS)
    for _ in range(ROOT_BITS):
        trial = Signal(ROOT_BITS + 2)
        known = Signal(ROOT_BITS + 2)
        m.d.comb += [known.eq(Cat(left[SQUARE_BITS - 2 :], remainder)), trial.eq(Cat(Const(1, 2), root))]
        fits = known >= trial
        next_left, next_remainder, next_root = (
            Signal(SQUARE_BITS),
            Signal(ROOT_BITS + 2),
            Signal(ROOT_BITS),
        )
        m.d.sync += [
            next_left.eq(left << 2),
            next_remainder.eq(Mux(fits, known - trial, known)),
            next_root.eq(Cat(fits, root)),
        ]
        left, remainder, root = next_left, next_remainder, next_root
    return root


def _quotient(m: Module, numerator: Value, divisor: Value) -> Value:
    """Return a quotient that is limited to `QUOTIENT_BITS` bits, as many cycles later."""
    remainder: Value = numerator[QUOTIENT_BITS:]
    left: Value = numerator[:QUOTIENT_BITS]
    beyond: Value = remainder >= divisor
    quotient: Value = Const(0, QUOTIENT_BITS)
    for _ in range(QUOTIENT_BITS):
        known = Signal(ROOT_BITS + 2)
        m.d.comb += known.eq(Cat(left[QUOTIENT_BITS - 1], remainder))
        fits = known >= divisor
        next_remainder, next_left = Signal(ROOT_BITS + 1), Signal(QUOTIENT_BITS)
        next_quotient, next_beyond, next_divisor = Signal(QUOTIENT_BITS), Signal(), Signal(ROOT_BITS + 1)
        m.d.sync += [
            next_remainder.eq(Mux(fits, known - divisor, known)),
            next_left.eq(left << 1),
            next_quotient.eq(Cat(fits | beyond, quotient)),
            next_beyond.eq(beyond),
            next_divisor.eq(divisor),
        ]
        remainder, left, quotient = next_remainder, next_left, next_quotient
        beyond, divisor = next_beyond, next_divisor
    return quotient
