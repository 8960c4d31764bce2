"""Weight update at the edge of two compute units, with the adders that let them share a network (PPO 3.3, Fig. 9).

Golden model: `update_golden`.
"""

from amaranth.hdl import Module, Mux, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

Row = list[int]


def update_golden(
    shared: bool, weights: tuple[Row, Row], gradients: tuple[Row, Row], bits: int
) -> tuple[Row, Row]:
    """New rows of weights of both networks, as two's complement integers of `bits` bits.

    Each network's weights plus its unit's gradients; where the units share network 0, its weights, read once, plus
    both units' gradients, and network 1's as they were.
    """

    def wrapped(value: int) -> int:
        return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))

    if shared:
        both = [wrapped(w + g + h) for w, g, h in zip(weights[0], *gradients, strict=True)]
        return both, list(weights[1])
    first, second = (
        [wrapped(w + g) for w, g in zip(*pair, strict=True)] for pair in zip(weights, gradients, strict=True)
    )
    return first, second


class WeightUpdate(wiring.Component):
    """A row of P weights a cycle for each of two networks, from gradients that are scaled by the learning rate already.

    Both units' rows come together; latency one cycle, and a row a cycle.

    Ports:
        shared: In(1), both units train network 0; constant while rows are under way.
        rows: In(stream): `weights` and `gradients` of unit 0 and 1, (2, P) signed(width) each. Where shared, unit 1's
            weights are not read: 0 goes into its sum, and they come out as they are.
        updated: Out(stream of (2, P) signed(width)), modulo 2**width.
    """

    def __init__(self, *, side: int, width: int = 32):
        if side < 1 or width < 1:
            raise ValueError(f"side, width: found {side}, {width}; allowed: 1 or more")
        self.side = side
        rows = data.ArrayLayout(data.ArrayLayout(signed(width), side), 2)
        super().__init__(
            {
                "shared": In(1),
                "rows": In(stream.Signature(data.StructLayout({"weights": rows, "gradients": rows}))),
                "updated": Out(stream.Signature(rows)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rows, updated = self.rows, self.updated
        m.d.comb += rows.ready.eq(~updated.valid | updated.ready)
        with m.If(rows.ready):
            m.d.sync += updated.valid.eq(rows.valid)
        with m.If(rows.valid & rows.ready):
            for k in range(self.side):
                own, other = (rows.payload.gradients[unit][k] for unit in range(2))
                first, second = (rows.payload.weights[unit][k] for unit in range(2))
                other_sum = Mux(self.shared, 0, second) + other
                m.d.sync += [
                    updated.payload[0][k].eq(first + own + Mux(self.shared, other_sum, 0)),
                    updated.payload[1][k].eq(Mux(self.shared, second, other_sum)),
                ]
        return m
