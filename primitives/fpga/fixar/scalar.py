"""The scalar unit: tanh, temporal difference errors and exploration noise, one number at a time on one multiplier.

Each result takes three cycles: operands, product, result; a derivative of tanh takes six.
"""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.cartpole_agent.lane import saturated
from placerl.primitives.fpga.fixar.program import ScalarFunction
from placerl.primitives.fpga.fixar.shape import ACTIVATIONS, GRADIENTS, ONE, SAMPLES, WORD_BITS, FixarShape
from placerl.primitives.fpga.fixar.tanh import LIMIT, RISE_BITS, RISES, SEGMENT_BITS, SEGMENTS, TABLE
from placerl.primitives.fpga.vector.random_generator import (
    GENERATORS,
    MEAN,
    SUM_BITS,
    UNIFORM_BITS,
    Xorshift,
    seeds,
)

DISCOUNT_FRACTION = 30
LOSS_FRACTION = 30
ERROR_SHIFT = ACTIVATIONS.fraction_bits + LOSS_FRACTION - GRADIENTS.fraction_bits
OPERAND_BITS = WORD_BITS + 2


class FixarScalarUnit(wiring.Component):
    """Computes a `ScalarFunction` of each sample of a group, and of each element of its action.

    Ports:
        start: In(1), function: In, count: In: elements; both constant until `done`. last: In(2), number of the
            group's last sample. done: Out(1).
        line: In(P x signed(32)), number: In(2): a line of sample `number`, which take_action: In(1) takes as an
            action, and take_outcome: In(1) as reward, discount and weight of the loss.
        outputs, input_errors: In(4 x P x signed(32)), from the engine. actor_error: In(signed(32)), deviation: In(17).
        actions, output_errors: Out(4 x P x signed(32)), to the engine. errors: Out(4 x signed(32)).
    """

    def __init__(self, shape: FixarShape, seed: int):
        self.shape, self.seed = shape, seed
        line = data.ArrayLayout(signed(WORD_BITS), shape.side)
        rows = data.ArrayLayout(line, SAMPLES)
        super().__init__(
            {
                "start": In(1),
                "function": In(range(len(ScalarFunction))),
                "count": In(range(shape.side + 1)),
                "last": In(range(SAMPLES)),
                "done": Out(1),
                "line": In(line),
                "number": In(range(SAMPLES)),
                "take_action": In(1),
                "take_outcome": In(1),
                "outputs": In(rows),
                "input_errors": In(rows),
                "actor_error": In(signed(WORD_BITS)),
                "deviation": In(17),
                "actions": Out(rows),
                "output_errors": Out(rows),
                "errors": Out(data.ArrayLayout(signed(WORD_BITS), SAMPLES)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        side, function = self.shape.side, self.function
        rewards, discounts, weights, goals = (
            Signal(data.ArrayLayout(signed(WORD_BITS), SAMPLES), name=name)
            for name in ("rewards", "discounts", "weights", "goals")
        )
        n, j = Signal(range(SAMPLES)), Signal(range(side))
        with m.If(self.take_action):
            m.d.sync += self.actions[self.number].eq(self.line)
        with m.If(self.take_outcome):
            m.d.sync += [
                rewards[self.number].eq(self.line[0]),
                discounts[self.number].eq(self.line[1]),
                weights[self.number].eq(self.line[2]),
            ]

        value, action, back = (Signal(signed(WORD_BITS), name=name) for name in ("value", "action", "back"))
        m.d.comb += [
            value.eq(self.outputs[n][j]),
            action.eq(self.actions[n][j]),
            back.eq(self.input_errors[n][j]),
        ]
        first, second = Signal(signed(OPERAND_BITS)), Signal(signed(OPERAND_BITS))
        product = Signal(signed(2 * OPERAND_BITS))
        slope = Signal(signed(OPERAND_BITS))
        again = Signal()  # the derivative of tanh takes a second product

        # tanh's table.
        size = Signal(WORD_BITS)
        base, rise = Signal(ACTIVATIONS.fraction_bits + 1), Signal(RISE_BITS)
        m.d.comb += size.eq(Mux(value < 0, -value, value))
        with m.Switch(size[SEGMENT_BITS : SEGMENT_BITS + SEGMENTS.bit_length() - 1]):
            for segment in range(SEGMENTS):
                with m.Case(segment):
                    m.d.comb += [base.eq(TABLE[segment]), rise.eq(RISES[segment])]
        tanh, positive = Signal(signed(WORD_BITS)), Signal(signed(WORD_BITS))
        m.d.comb += [
            positive.eq(
                Mux(size >= LIMIT, ONE, base + ((product + (1 << SEGMENT_BITS - 1)) >> SEGMENT_BITS))
            ),
            tanh.eq(Mux(value < 0, -positive, positive)),
        ]

        # Noise of mean 0 and variance 1, 16 fraction bits: twelve uniform numbers.
        noise, halves = Signal(signed(SUM_BITS)), []
        draw = Signal()
        for number, state in enumerate(seeds(self.seed, GENERATORS)):
            m.submodules[f"generator_{number}"] = generator = Xorshift(state)
            m.d.comb += generator.enable.eq(draw)
            halves += [generator.word[:UNIFORM_BITS], generator.word[UNIFORM_BITS:]]
        m.d.comb += noise.eq(sum(halves[1:], halves[0]) - MEAN)

        error = Signal(signed(WORD_BITS))
        m.d.comb += error.eq(saturated(m, goals[n] - value, WORD_BITS))

        def rounded(places: int) -> Signal:
            result = Signal(signed(WORD_BITS))
            m.d.comb += result.eq(saturated(m, (product + (1 << places - 1)) >> places, WORD_BITS))
            return result

        discounted, weighted, passed = rounded(DISCOUNT_FRACTION), rounded(ERROR_SHIFT), rounded(WORD_BITS)
        noisy = Signal(signed(WORD_BITS + 1))
        m.d.comb += noisy.eq(action + rounded(ACTIVATIONS.fraction_bits))
        last_element = j + 1 == self.count
        last_sample = n == self.last
        with m.FSM():
            with m.State("IDLE"), m.If(self.start):
                m.d.sync += [n.eq(0), j.eq(0), again.eq(0)]
                m.next = "OPERANDS"
            with m.State("OPERANDS"):
                with m.Switch(function):
                    with m.Case(ScalarFunction.TANH):
                        m.d.sync += [first.eq(rise), second.eq(size[:SEGMENT_BITS])]
                    with m.Case(ScalarFunction.GOAL):
                        m.d.sync += [first.eq(discounts[n]), second.eq(value)]
                    with m.Case(ScalarFunction.ERROR):
                        m.d.sync += [first.eq(-error), second.eq(weights[n])]
                    with m.Case(ScalarFunction.TANH_BACK):
                        m.d.sync += [
                            first.eq(Mux(again, back, action)),
                            second.eq(Mux(again, slope, action)),
                        ]
                    with m.Case(ScalarFunction.EXPLORE):
                        m.d.comb += draw.eq(1)
                        m.d.sync += [first.eq(noise), second.eq(self.deviation)]
                m.next = "PRODUCT"
            with m.State("PRODUCT"):
                m.d.sync += product.eq(first * second)
                m.next = "RESULT"
            with m.State("RESULT"):
                m.next = "OPERANDS"
                with m.Switch(function):
                    with m.Case(ScalarFunction.TANH):
                        m.d.sync += self.actions[n][j].eq(tanh)
                    with m.Case(ScalarFunction.GOAL):
                        m.d.sync += goals[n].eq(saturated(m, rewards[n] + discounted, WORD_BITS))
                    with m.Case(ScalarFunction.ERROR):
                        m.d.sync += [self.errors[n].eq(error), self.output_errors[n].as_value().eq(0)]
                        m.d.sync += self.output_errors[n][0].eq(weighted)
                    with m.Case(ScalarFunction.ASCEND):
                        m.d.sync += self.output_errors[n].as_value().eq(0)
                        m.d.sync += self.output_errors[n][0].eq(self.actor_error)
                    with m.Case(ScalarFunction.TANH_BACK):
                        m.d.sync += [again.eq(~again), slope.eq(ONE * ONE - product)]
                        with m.If(again):
                            m.d.sync += self.output_errors[n][j].eq(passed)
                    with m.Case(ScalarFunction.EXPLORE):
                        limited = Mux(noisy > ONE, ONE, Mux(noisy < -ONE, -ONE, noisy))
                        m.d.sync += self.actions[n][j].eq(limited)
                with m.If((function != ScalarFunction.TANH_BACK) | again):
                    m.d.sync += j.eq(j + 1)
                    with m.If(last_element):
                        m.d.sync += [j.eq(0), n.eq(n + 1)]
                        with m.If(last_sample):
                            m.d.comb += self.done.eq(1)
                            m.next = "IDLE"
        return m
