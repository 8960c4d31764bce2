"""A multiplier with a configurable datapath (FIX V-C), and the element of the systolic array (PPO 3.2)."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.floating_point.words import delayed
from placerl.primitives.fpga.gemm.arithmetic import INTEGER

PIECE_BITS = 17
"""Bits of the pieces of an operand: with a sign, they enter a multiplier of 18 x 18 bits, as FPGAs have."""


def partial_products(m: Module, a: Value, b: Value) -> list[Value]:
    """Return numbers whose sum is the product of two signed numbers, in registers that are added to `m`.

    Each is a product of a piece of `a` and a piece of `b` of `PIECE_BITS` bits, shifted to its place.
    """
    found = []
    for i, left in enumerate(_pieces(a)):
        for j, right in enumerate(_pieces(b)):
            product = left * right
            register = Signal(product.shape(), name=f"partial_{i}_{j}")
            m.d.sync += register.eq(product)
            found.append(register << (i + j) * PIECE_BITS)
    return found


def _pieces(value: Value) -> list[Value]:
    """Return the pieces of a signed number, lowest first; the highest is signed."""
    lows = range(0, len(value), PIECE_BITS)
    pieces: list[Value] = [value[low : low + PIECE_BITS] for low in lows]
    return [*pieces[:-1], pieces[-1].as_signed()]


def _sum(numbers: Sequence[Any]) -> Any:
    return sum(numbers[1:], numbers[0])


def halves_of(activation: Value, halves: Value) -> tuple[Value, Value]:
    """Return the halves of a word as signed numbers, low and high.

    The low one is a signed number, or with `halves` of 0 the unsigned low bits of a whole activation: one more bit
    represents both.
    """
    half = len(activation) // 2
    low = Cat(activation[:half], halves & activation[half - 1]).as_signed()
    return low, activation[half:].as_signed()


class ConfigurableMultiplier(wiring.Component):
    """Multiplies a weight by one activation of `width` bits, or by two activations of half the width (FIX Fig. 5).

    It is combinational and consists of two multipliers of width x width/2. All numbers are signed.

    Ports:
        activation: In(width), one signed word, or two signed halves (low bits: the first).
        weight: In(signed(width)).
        halves: In(1), whether `activation` holds two numbers.
        product: Out(signed(2 * width)), of the whole activation, or of the low half.
        upper_product: Out(signed(2 * width)), of the high half; 0 for a whole activation.
    """

    def __init__(self, *, width: int = 32):
        if width < 2 or width % 2:
            raise ValueError(f"width: found {width}; allowed: an even number of bits, 2 or more")
        self.width = width
        super().__init__(
            {
                "activation": In(width),
                "weight": In(signed(width)),
                "halves": In(1),
                "product": Out(signed(2 * width)),
                "upper_product": Out(signed(2 * width)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        half = self.width // 2
        low, high = halves_of(self.activation, self.halves)
        low_product = Signal(signed(self.width + half + 1))
        high_product = Signal(signed(self.width + half))
        m.d.comb += [low_product.eq(low * self.weight), high_product.eq(high * self.weight)]
        m.d.comb += [
            self.product.eq(low_product + Mux(self.halves, 0, high_product << half)),
            self.upper_product.eq(Mux(self.halves, high_product, 0)),
        ]
        return m


# Signals that travel with an operand from the left edge through a row of the array, one element per cycle.
Control = data.StructLayout(
    {
        "valid": 1,  # whether there is an operand; otherwise nothing changes
        "first": 1,  # of a dot product (non-stationary), or of a pass (stationary: use the waiting weight)
        "last": 1,  # the dot product ends, or this pass is the last of the inner dimension (stationary)
        "restart": 1,  # this pass is the first of the inner dimension (stationary)
        "load": 1,  # the word that comes from above is the weight of this element (stationary)
    }
)


class ProcessingElement(wiring.Component):
    """An element of the systolic array, which does one multiply-accumulate per cycle.

    In the non-stationary dataflow the running sum stays in the element. In a stationary dataflow the element keeps a
    weight (in IS: an input), and the running sum moves down the column.

    Latency: one cycle from an operand to the neighbour's, and `INTEGER.sum_cycles` to the sum. A running sum that comes
    from above takes one cycle. There is no handshake: `control_in` marks the cycles in which the operands are valid.

    Args:
        configurable: whether the left operand may hold two numbers (`ConfigurableMultiplier`); then there are two
            lanes of sums, otherwise one.
        block_load: whether weights come from the element's own memory instead of from above.

    Ports:
        stationary: In(1), whether the dataflow is stationary; constant while operands are in the array.
        halves: In(1), the left operand holds two numbers of half the width (`configurable` only).
        control_in, control_out: Control, from the left, to the right.
        left_in, left_out: signed(width), the operand that streams through the row.
        top_in, top_out: signed(width), the column's operand, or a weight on its way down.
        sum_in: In(lanes x signed(accumulator_width)), from above (stationary), `INTEGER.sum_cycles` - 1 cycles after
            the operands.
        sum: Out(lanes x signed(accumulator_width)), wraps modulo 2**accumulator_width.
        done: Out(1), `sum` is a finished dot product (non-stationary).
        weight_in: In(signed(width)), the weight of the pass whose `first` vector is here in this cycle
            (`block_load` only).
    """

    def __init__(
        self, *, width: int, accumulator_width: int, configurable: bool = False, block_load: bool = False
    ):
        self.width, self.block_load = width, block_load
        self.lanes = 2 if configurable else 1
        sums = data.ArrayLayout(signed(accumulator_width), self.lanes)
        super().__init__(
            {
                "stationary": In(1),
                "halves": In(1),
                "control_in": In(Control),
                "control_out": Out(Control),
                "left_in": In(signed(width)),
                "left_out": Out(signed(width)),
                "top_in": In(signed(width)),
                "top_out": Out(signed(width)),
                "sum_in": In(sums),
                "sum": Out(sums),
                "done": Out(1),
                **({"weight_in": In(signed(width))} if block_load else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control = self.control_in
        m.d.sync += [
            self.left_out.eq(self.left_in),
            self.top_out.eq(self.top_in),
            self.control_out.eq(control),
        ]
        # Two weights: the current one, and one that waits for the next pass.
        weight = Signal(signed(self.width))
        if self.block_load:
            waiting = self.weight_in
        else:
            waiting = Signal(signed(self.width))
            with m.If(control.load):
                m.d.sync += waiting.eq(self.top_in)
        with m.If(control.valid & control.first):
            m.d.sync += weight.eq(waiting)
        operand = Signal(signed(self.width))
        m.d.comb += operand.eq(Mux(self.stationary, Mux(control.first, waiting, weight), self.top_in))

        # A cycle each: the operands are registered, pieces of them multiplied, these products added, and the sum.
        left, right = delayed(m, self.left_in, 1), delayed(m, operand, 1)
        products = [Signal(signed(2 * self.width), name=f"product_{lane}") for lane in range(self.lanes)]
        if self.lanes == 1:
            m.d.sync += products[0].eq(_sum(partial_products(m, left, right)))
        else:
            low, high = halves_of(left, self.halves)
            low_products, high_products = (partial_products(m, half, right) for half in (low, high))
            upper = _sum(high_products)
            m.d.sync += [
                products[0].eq(_sum(low_products) + Mux(self.halves, 0, upper << self.width // 2)),
                products[1].eq(Mux(self.halves, upper, 0)),
            ]
        valid, first, last = (
            delayed(m, mark, INTEGER.sum_cycles - 1) for mark in (control.valid, control.first, control.last)
        )
        m.d.sync += self.done.eq(valid & last & ~self.stationary)
        with m.If(valid):
            for lane, product in enumerate(products):
                so_far = Mux(self.stationary, self.sum_in[lane], Mux(first, 0, self.sum[lane]))
                m.d.sync += self.sum[lane].eq(so_far + product)
        return m
