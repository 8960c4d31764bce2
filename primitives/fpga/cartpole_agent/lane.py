"""One lane of the vector unit: everything about one hidden neuron, with one 18 x 18 multiplier.

An operation passes through stages, one per cycle:

    0  the weights' memories read the operation's row
    1  the operands are selected: weight, activation or delta, and the scalar of all lanes or the activation
    2  they are multiplied; the gradients' memories read the row
    3  the product is accumulated, added to the row's gradient, or becomes the delta; an update begins
    4  the accumulated sum becomes the activation; an update has the gradient and the decayed momentum
    5  an update has the new momentum and reads the weight
    6  an update writes the new weight
"""

from enum import IntEnum
from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.cartpole_agent.settings import (
    GRADIENT_BITS,
    GRADIENT_FRACTION,
    MOMENTUM_BITS,
    MOMENTUM_SHIFT,
    ONE,
    RATE_SHIFT,
    ROWS,
    SUM_BITS,
    WEIGHT_BITS,
    WEIGHT_FRACTION,
    WORD_BITS,
    WORD_FRACTION,
)
from placerl.primitives.fpga.export.ram import Ram

ROW = range(ROWS)


class Left(IntEnum):
    """The left operand of a lane's multiplication."""

    WEIGHT = 0
    TARGET = 1
    HIDDEN = 2
    DELTA = 3


def control() -> data.StructLayout:
    """Return the signals that control all lanes; each name ends with the stage in which it counts.

    `read_row_0`: the row that the weights' memories read. `left_1`: a `Left`. `hidden_1`: the right operand is the
    activation. `scalar_1`: else it is this. `gradient_row_2`, `row_3`, `row_5`, `row_6`: the operation's row.
    `clear_3`: the product begins a new sum. `accumulate_3`, `add_gradient_3`, `take_delta_3`: where the product goes.
    `has_gradient_3`: the row has a gradient of this batch, which is otherwise 0. `activate_4`. `momentum_5`,
    `weight_6`: an update writes. `copy_6`: also to the target network. `load_6`: `load`, an initial weight, is written
    instead.
    """
    return data.StructLayout(
        {
            "read_row_0": ROW,
            "left_1": range(len(Left)),
            "hidden_1": 1,
            "scalar_1": signed(WORD_BITS),
            "gradient_row_2": ROW,
            "row_3": ROW,
            "clear_3": 1,
            "accumulate_3": 1,
            "add_gradient_3": 1,
            "take_delta_3": 1,
            "has_gradient_3": 1,
            "activate_4": 1,
            "row_5": ROW,
            "momentum_5": 1,
            "row_6": ROW,
            "weight_6": 1,
            "copy_6": 1,
            "load_6": 1,
        }
    )


class Lane(wiring.Component):
    """The weights of one hidden neuron, to it and from it, and their training.

    Args:
        bias: the neuron is constantly 1, so that its weights are the biases of the outputs.

    Ports:
        control: In, as `control` describes it. load: In(signed(26)), an initial weight.
        product: Out(signed(36)), of the operation in stage 3.
    """

    def __init__(self, *, bias: bool):
        self.bias = bias
        super().__init__(
            {
                "control": In(control()),
                "load": In(signed(WEIGHT_BITS)),
                "product": Out(signed(2 * WORD_BITS)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        c = self.control
        m.submodules.weights = weights = Ram(width=WEIGHT_BITS, depth=ROWS)
        m.submodules.targets = targets = Ram(width=WORD_BITS, depth=ROWS)
        m.submodules.momenta = momenta = Ram(width=MOMENTUM_BITS, depth=ROWS)
        m.submodules.gradients = gradients = Ram(width=SUM_BITS, depth=ROWS)
        for memory in (weights, targets):
            m.d.comb += [memory.read_enable.eq(1), memory.read_address.eq(c.read_row_0)]
        for memory in (momenta, gradients):
            m.d.comb += [memory.read_enable.eq(1), memory.read_address.eq(c.gradient_row_2)]

        hidden = Signal(signed(WORD_BITS))
        delta = Signal(signed(WORD_BITS))
        left, right = Signal(signed(WORD_BITS)), Signal(signed(WORD_BITS))
        m.d.sync += right.eq(Mux(c.hidden_1, hidden, c.scalar_1))
        with m.Switch(c.left_1):
            with m.Case(Left.WEIGHT):
                m.d.sync += left.eq(_used(weights.read_data))
            with m.Case(Left.TARGET):
                m.d.sync += left.eq(targets.read_data)
            with m.Case(Left.HIDDEN):
                m.d.sync += left.eq(hidden)
            with m.Case(Left.DELTA):
                m.d.sync += left.eq(delta)
        m.d.sync += self.product.eq(left * right)

        # Stage 3: where the product goes.
        gradient = Signal(signed(SUM_BITS))
        total = Signal(signed(SUM_BITS))
        m.d.comb += [
            gradient.eq(Mux(c.has_gradient_3, gradients.read_data.as_signed(), 0)),
            gradients.write_enable.eq(c.add_gradient_3),
            gradients.write_address.eq(c.row_3),
            gradients.write_data.eq(gradient + self.product),
        ]
        with m.If(c.accumulate_3):
            m.d.sync += total.eq(Mux(c.clear_3, 0, total) + self.product)
        if self.bias:
            m.d.comb += [hidden.eq(ONE), delta.eq(0)]
        else:
            active = hidden != 0
            with m.If(c.take_delta_3):
                m.d.sync += delta.eq(Mux(active, saturated(m, self.product >> WORD_FRACTION, WORD_BITS), 0))
            with m.If(c.activate_4):
                activation = saturated(m, total >> WORD_FRACTION, WORD_BITS)
                m.d.sync += hidden.eq(Mux(total < 0, 0, activation))

        # Stages 3 to 6: the update.
        batch_gradient = Signal(signed(GRADIENT_BITS))
        kept, momentum = Signal(signed(MOMENTUM_BITS)), Signal(signed(MOMENTUM_BITS))
        before, weight = Signal(signed(WEIGHT_BITS)), Signal(signed(WEIGHT_BITS))
        old = momenta.read_data.as_signed()
        m.d.sync += [
            batch_gradient.eq(
                saturated(m, gradient >> (2 * WORD_FRACTION - GRADIENT_FRACTION), GRADIENT_BITS)
            ),
            kept.eq(old - (old >> MOMENTUM_SHIFT)),
            momentum.eq(saturated(m, batch_gradient + kept, MOMENTUM_BITS)),
            weight.eq(saturated(m, before - (momentum >> RATE_SHIFT), WEIGHT_BITS)),
        ]
        written = Mux(c.load_6, self.load, weight)
        m.d.comb += [
            before.eq(weights.read_data),
            momenta.write_enable.eq(c.momentum_5 | c.load_6),
            momenta.write_address.eq(Mux(c.load_6, c.row_6, c.row_5)),
            momenta.write_data.eq(Mux(c.load_6, 0, momentum)),
            weights.write_enable.eq(c.weight_6 | c.load_6),
            weights.write_address.eq(c.row_6),
            weights.write_data.eq(written),
            targets.write_enable.eq(c.copy_6 | c.load_6),
            targets.write_address.eq(c.row_6),
            targets.write_data.eq(_used(written)),
        ]
        return m


def _used(weight: Any) -> Any:
    """Return the part of a weight that enters products."""
    dropped = WEIGHT_FRACTION - WORD_FRACTION
    return weight[dropped : dropped + WORD_BITS].as_signed()


def saturated(m: Module, value: Any, bits: int) -> Value:
    """Return a signed value limited to the range of two's complement with `bits` bits."""
    wide = Signal(signed(max(bits + 1, len(value))))
    result = Signal(signed(bits))
    m.d.comb += [wide.eq(value), result.eq(wide)]
    sign = wide[-1]
    with m.If(wide[bits - 1 :] != sign.replicate(len(wide) - bits + 1)):
        m.d.comb += result.eq(Mux(sign, -(1 << bits - 1), (1 << bits - 1) - 1))
    return result
