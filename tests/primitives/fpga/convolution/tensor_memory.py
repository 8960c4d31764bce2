"""The memory of a tensor, which gives P consecutive words from any address.

It stands for the external memory that the layout transformation module of PPO 3.2.1 reads. It always answers in the
next cycle; the latency and bandwidth of a DDR memory are not modelled. Golden model: NumPy's slicing.
"""

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from placerl.primitives.fpga.export.ram import Ram


class TensorMemory(wiring.Component):
    """A memory of P banks, which reads P consecutive words from any address in one cycle.

    Word x is in bank x mod P, so that P consecutive words come from P different banks.

    Args:
        lanes: P, a power of two, 2 or more.
        lines: capacity in multiples of P words, a power of two, 2 or more.

    Ports:
        read_enable: In(1), address: In, of a word: lane k of `words` is word `address + k`, modulo the memory's size.
        words: Out(P x width), in the next cycle.
        write_enable: In(1), line: In, written: In(P x width): words from `line` x P on, written at the cycle's end.
    """

    def __init__(self, *, lanes: int, width: int, lines: int):
        if lanes < 2 or lanes & (lanes - 1) or lines < 2 or lines & (lines - 1):
            raise ValueError(f"lanes, lines: found {lanes}, {lines}; allowed: powers of two, 2 or more")
        self.lanes, self.width, self.lines = lanes, width, lines
        vector = data.ArrayLayout(width, lanes)
        super().__init__(
            {
                "read_enable": In(1),
                "address": In(range(lanes * lines)),
                "words": Out(vector),
                "write_enable": In(1),
                "line": In(range(lines)),
                "written": In(vector),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        offset_bits = exact_log2(self.lanes)
        offset, line = self.address[:offset_bits], self.address[offset_bits:]
        read = []
        for k in range(self.lanes):
            m.submodules[f"bank_{k}"] = bank = Ram(width=self.width, depth=self.lines)
            m.d.comb += [
                bank.read_enable.eq(self.read_enable),
                bank.read_address.eq(line + (k < offset)),
                bank.write_enable.eq(self.write_enable),
                bank.write_address.eq(self.line),
                bank.write_data.eq(self.written[k]),
            ]
            read.append(bank.read_data)
        begin = Signal(offset_bits)
        with m.If(self.read_enable):
            m.d.sync += begin.eq(offset)
        for lane in range(self.lanes):
            turned = Array(read[(lane + k) % self.lanes] for k in range(self.lanes))
            m.d.comb += self.words[lane].eq(turned[begin])
        return m
