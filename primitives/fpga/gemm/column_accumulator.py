"""The accumulator below a column of the systolic array, which adds the column's partial sums (PPO 3.2.2)."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.gemm.processing_element import Control


class ColumnAccumulator(wiring.Component):
    """Adds the partial sums that leave a column of the array, vector by vector (PPO 3.2.2: the FIFOs).

    In a stationary dataflow a product is computed in passes, one for each block of the operand that stays in the
    array. Every pass along the product's inner dimension gives one partial sum per vector. The k-th sums of these
    passes are added, so every pass must bring the same number of sums.

    There is no latency: a total is ready together with its last partial sum, as the memory is read a cycle earlier.

    Args:
        depth: most sums in a pass.
        lanes: numbers in a sum; 2 with FIX's configurable datapath, which multiplies two activations at once.

    Ports:
        control: In(Control), for the sums that arrive in the next cycle: `valid`, there are sums; `first`, a pass
            begins; `restart`, new totals begin; `last`, the totals are finished.
        sums: In(lanes x signed(width)), partial sums.
        totals: Out(lanes x signed(width)), the sums added so far; finished when `valid`.
        valid: Out(1).
    """

    def __init__(self, *, width: int, depth: int, lanes: int):
        self.width, self.depth, self.lanes = width, depth, lanes
        sums = data.ArrayLayout(signed(width), lanes)
        super().__init__({"control": In(Control), "sums": In(sums), "totals": Out(sums), "valid": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Ram(width=self.width * self.lanes, depth=self.depth)
        position = Signal(range(self.depth))
        arriving, current = self.control, Signal(Control)
        # A total that is written in the cycle in which it is read (passes of one vector) is not in the memory
        # yet.
        written, forward = Signal.like(memory.write_data), Signal()
        layout = data.ArrayLayout(signed(self.width), self.lanes)
        before = data.View(layout, Mux(forward, written, memory.read_data))
        m.d.sync += [
            written.eq(memory.write_data),
            forward.eq(memory.write_enable & (memory.write_address == memory.read_address)),
        ]
        m.d.comb += [
            memory.read_address.eq(Mux(arriving.first, 0, position)),
            memory.read_enable.eq(arriving.valid),
        ]
        with m.If(arriving.valid):
            m.d.sync += position.eq(Mux(arriving.first, 1, position + 1))
        m.d.sync += [current.eq(arriving), memory.write_address.eq(memory.read_address)]
        for lane in range(self.lanes):
            m.d.comb += self.totals[lane].eq(Mux(current.restart, 0, before[lane]) + self.sums[lane])
        m.d.comb += [
            memory.write_data.eq(self.totals),
            memory.write_enable.eq(current.valid),
            self.valid.eq(current.valid & current.last),
        ]
        return m
