"""A small design with registers and streams, for tests: the example of `primitives.fpga.host`."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.bench.files import recorded
from placerl.primitives.fpga.bench.stimuli import Stimuli
from placerl.primitives.fpga.host import COMMON, AxiLite, Register, RegisterFile, RegisterMap, axi_stream
from placerl.primitives.fpga.tools.blocks import Block

MAP = RegisterMap("scaler", "Multiplies numbers.", (*COMMON, Register("factor", 0x10, "rw", reset=1)))


class Scaler(wiring.Component):
    """Multiplies a stream of numbers by a register; a start sets the flag `done` at once."""

    register_map = MAP

    def __init__(self) -> None:
        super().__init__(
            {
                "s_axil": In(AxiLite(MAP.address_bits)),
                "s_axis": In(axi_stream(32)),
                "m_axis": Out(axi_stream(32)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.registers = registers = RegisterFile(MAP)
        wiring.connect(m, wiring.flipped(self.s_axil), registers.bus)
        m.d.comb += [
            registers.status.busy.eq(self.s_axis.valid),
            registers.events.done.eq(registers.control.start),
            self.m_axis.payload.data.eq(self.s_axis.payload.data * registers.factor),
            self.m_axis.payload.last.eq(self.s_axis.payload.last),
            self.m_axis.valid.eq(self.s_axis.valid),
            self.s_axis.ready.eq(self.m_axis.ready),
        ]
        return m


def accesses(design: Any) -> Stimuli:
    """Write the factor twice and start, read all registers, and scale random numbers meanwhile."""
    return Stimuli(
        {
            "s_axil__aw": {"address": [0x10, 0x00, 0x08, 0x10]},
            "s_axil__w": {"data": [3, 1, 1, 5], "strobe": [15, 15, 15, 15]},
            "s_axil__ar": {"address": [0x10, 0x04, 0x08, 0x0C, 0x00, 0x10]},
        },
        cycles=100,
    )


def make() -> Scaler:
    """Multiplies a stream of numbers by a register."""
    return Scaler()


SCALER = Block("scaler", make, recorded(accesses))


def recorded_values(text: str) -> list[int]:
    """Values of a port in each cycle of a record."""
    found: list[int] = []
    for word in text.split():
        found.append(found[-1] if word == "." else int(word, 16))
    return found
