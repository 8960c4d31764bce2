"""The accumulator below a column of the systolic array: sums over the tiles of the inner dimension (PPO 3.2.2)."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from primitives.fpga.processing_element import Control


class ColumnAccumulator(wiring.Component):
    """Adds up a column's sums over the passes of the inner dimension, vector by vector (PPO 3.2.2: the FIFOs).

    No latency: the total of a sum is there with the sum, for the memory is read a cycle ahead of it. The sums of a pass
    are counted from its first; pass after pass must bring the same number, at least two cycles apart.

    Ports:
        control: In(Control), of the sum that comes in the next cycle.
        sums: In(lanes x signed(width)).
        totals: Out(lanes x signed(width)), finished when `valid`.
        valid: Out(1).
    """

    def __init__(self, *, width: int, depth: int, lanes: int):
        self.width, self.depth, self.lanes = width, depth, lanes
        sums = data.ArrayLayout(signed(width), lanes)
        super().__init__({"control": In(Control), "sums": In(sums), "totals": Out(sums), "valid": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        layout = data.ArrayLayout(signed(self.width), self.lanes)
        m.submodules.memory = memory = Memory(shape=layout, depth=self.depth, init=[])
        reader, writer = memory.read_port(), memory.write_port()
        position = Signal(range(self.depth))
        arriving, current = self.control, Signal(Control)
        m.d.comb += reader.addr.eq(Mux(arriving.first, 0, position))
        m.d.comb += reader.en.eq(arriving.valid)
        with m.If(arriving.valid):
            m.d.sync += position.eq(Mux(arriving.first, 1, position + 1))
        m.d.sync += [current.eq(arriving), writer.addr.eq(reader.addr)]
        for lane in range(self.lanes):
            before = Mux(current.restart, 0, reader.data[lane])
            m.d.comb += self.totals[lane].eq(before + self.sums[lane])
        m.d.comb += [
            writer.data.eq(self.totals),
            writer.en.eq(current.valid),
            self.valid.eq(current.valid & current.last),
        ]
        return m
