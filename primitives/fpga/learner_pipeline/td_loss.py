"""The loss unit of DQN and of DDPG's critic: TD errors, their importance weights, and the errors to send back.

    y = r + discount next,   next = max_a t[a], or t[argmax_a g[a]] with greedy values g (double DQN)
    td = y - q[action],      error[action] = -w l'(td),  0 for other actions

t are the target network's values of the next state, q those of the state. l' is 2 td, or td limited to [-1, 1] for
Huber's loss. The discount is gamma^m, or 0 where the episode terminated. (`primitives.algorithms.dqn`)
"""

from typing import Any

from amaranth.hdl import Array as Choice
from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.learner_pipeline.layer import Number, all_of, saturated, stored, vector
from placerl.primitives.fpga.learner_pipeline.layer_shape import FORMAT, FRACTION, TD_LOSS_CYCLES

LATENCY = TD_LOSS_CYCLES
Fraction = signed(FRACTION.bits)
ONE = 1 << FORMAT.fraction_bits


def terms(actions: int) -> data.StructLayout:
    """Return the Amaranth layout of the parts of a sample that only the loss needs.

    `reward` is in `FORMAT`; `discount` and `weight` (importance) are in `FRACTION`; `action` is below `actions`, and
    there is none with one action.
    """
    return data.StructLayout(
        {
            **({"action": range(actions)} if actions > 1 else {}),
            "reward": Number,
            "discount": Fraction,
            "weight": Fraction,
        }
    )


class TdLossUnit(wiring.Component):
    """Computes the errors of the last layer and the TD error of a sample; takes a sample per cycle.

    Args:
        actions: number of outputs, 1 or more.
        double: whether the next action is that of the largest greedy value (double DQN).

    Ports:
        outputs, targets: In(stream of vector(actions)): q and t. greedy: In(the same): g, only if `double`.
        terms: In(stream of `terms`). All are taken together.
        huber: In(1), Huber's loss instead of the squared one.
        errors: Out(stream of vector(actions)), tds: Out(stream of Number): delivered together.

    Latency: `LATENCY` cycles. The unit stalls while a result is not taken.
    """

    def __init__(self, actions: int, *, double: bool = False):
        self.actions, self.double = actions, double
        values = stream.Signature(vector(actions))
        super().__init__(
            {
                "outputs": In(values),
                "targets": In(values),
                **({"greedy": In(values)} if double else {}),
                "terms": In(stream.Signature(terms(actions))),
                "huber": In(1),
                "errors": Out(values),
                "tds": Out(stream.Signature(Number)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        inputs = [self.outputs, self.targets, self.terms, *([self.greedy] if self.double else [])]
        all_valid = all_of([each.valid for each in inputs])
        last_valid = Signal()
        advance = Signal()
        m.d.comb += [
            advance.eq(~last_valid | (self.errors.ready & self.tds.ready)),
            self.errors.valid.eq(last_valid & self.tds.ready),
            self.tds.valid.eq(last_valid & self.errors.ready),
            *(each.ready.eq(advance & all_valid) for each in inputs),
        ]

        def kept(value: Value, shape: Any = Number, cycles: int = 1) -> Value:
            """Return the value some stages later."""
            for _ in range(cycles):
                register = Signal(shape, name="stage")
                with m.If(advance):
                    m.d.sync += register.eq(value)
                value = register
            return value

        valid = kept(all_valid, 1, LATENCY - 1)
        with m.If(advance):
            m.d.sync += last_valid.eq(valid)

        # Stages 1 to 4: the target, y.
        given = self.terms.payload
        q, t = ([each.payload[a] for a in range(self.actions)] for each in (self.outputs, self.targets))
        by = [self.greedy.payload[a] for a in range(self.actions)] if self.double else t
        following = kept(_largest(by, t))
        product = kept(following * kept(given.discount, Fraction), signed(FORMAT.bits + FRACTION.bits))
        discounted = kept(stored(m, product, FRACTION.fraction_bits))
        y = kept(saturated(discounted + kept(given.reward, cycles=3)))
        # Stages 5 to 7: the TD error, the product with the importance weight, the errors.
        taken = Choice(q)[given.action] if self.actions > 1 else q[0]
        td = kept(saturated(y - kept(taken, cycles=4)))
        limited = Mux(td > ONE, ONE, Mux(td < -ONE, -ONE, td))
        slope = Signal(Number)
        m.d.comb += slope.eq(Mux(self.huber, limited, saturated(td << 1)))
        weighted = kept(slope * kept(given.weight, Fraction, 5), signed(FORMAT.bits + FRACTION.bits))
        error = Signal(Number)
        m.d.comb += error.eq(saturated(-stored(m, weighted, FRACTION.fraction_bits)))
        last_td = kept(td, cycles=2)
        m.d.comb += self.tds.payload.eq(last_td)
        if self.actions == 1:
            m.d.comb += self.errors.payload[0].eq(kept(error))
            return m
        action = kept(given.action, range(self.actions), 6)
        for a in range(self.actions):
            m.d.comb += self.errors.payload[a].eq(kept(Mux(action == a, error, 0)))
        return m


def _largest(by: list[Value], values: list[Value]) -> Value:
    """Return the value at the first of the largest entries of `by`."""
    best, value = by[0], values[0]
    for other, candidate in zip(by[1:], values[1:], strict=True):
        larger = other > best
        best, value = Mux(larger, other, best), Mux(larger, candidate, value)
    return value
