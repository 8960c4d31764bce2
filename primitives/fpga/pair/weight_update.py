"""The weight update of two compute units, with adders that let them share a network (PPO 3.3, Fig. 9)."""

from amaranth.hdl import Module, Mux, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

Row = list[int]


class WeightUpdate(wiring.Component):
    """Adds gradients to the weights of two networks, for each a row of P numbers per cycle.

    The gradients are already scaled by the learning rate. The rows of both units arrive together; the
    latency is one cycle.

    Args:
        side: P, numbers in a row.

    Ports:
        shared: In(1), both units train network 0; constant while rows are in the unit.
        rows: In(stream): `weights` and `gradients` of unit 0 and 1, (2, P) signed(width) each. If `shared`, unit 1's
            weights are output unchanged and are not part of any sum.
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
