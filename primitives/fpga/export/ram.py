"""A memory with one read and one write port: Amaranth's own in its simulator, a Verilog module in an export."""

from typing import Any

from amaranth import ClockSignal, Instance, Module, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from placerl.primitives.fpga.export.platform import ExportPlatform
from placerl.primitives.fpga.export.ram_verilog import RAM_MODULE


class Ram(wiring.Component):
    """A memory of `depth` words of `width` bits, initially 0, which reads and writes one word each per cycle.

    With `ultra` its instance asks synthesis for UltraRAMs (`ram_style`); otherwise synthesis chooses.

    Ports:
        read_enable (in, 1), read_address (in, log2 depth): the word is on `read_data` (out, `width`) in the next
            cycle and stays there until the next read. A word being written is read with its old value.
        write_enable (in, 1), write_address (in, log2 depth), write_data (in, `width`): written at the cycle's end.
    """

    def __init__(self, *, width: int, depth: int, ultra: bool = False) -> None:
        self.width, self.depth, self.ultra = width, depth, ultra
        address = max(1, ceil_log2(depth))
        super().__init__(
            {
                "read_enable": In(1),
                "read_address": In(address),
                "read_data": Out(width),
                "write_enable": In(1),
                "write_address": In(address),
                "write_data": In(width),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        if isinstance(platform, ExportPlatform):
            m.submodules.words = Instance(
                RAM_MODULE,
                **({"a_ram_style": "ultra"} if self.ultra else {}),
                p_WIDTH=self.width,
                p_DEPTH=self.depth,
                p_ADDRESS_WIDTH=len(self.read_address),
                i_clk=ClockSignal(),
                i_read_enable=self.read_enable,
                i_read_address=self.read_address,
                o_read_data=self.read_data,
                i_write_enable=self.write_enable,
                i_write_address=self.write_address,
                i_write_data=self.write_data,
            )
            return m
        m.submodules.words = words = memory.Memory(shape=unsigned(self.width), depth=self.depth, init=[])
        read, write = words.read_port(), words.write_port()
        m.d.comb += [
            read.en.eq(self.read_enable),
            read.addr.eq(self.read_address),
            self.read_data.eq(read.data),
            write.en.eq(self.write_enable),
            write.addr.eq(self.write_address),
            write.data.eq(self.write_data),
        ]
        return m
