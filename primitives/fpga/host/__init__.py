"""The host interface of whole accelerators: AXI4-Lite registers, AXI4-Stream ports, and a model of the link.

A design describes its registers once, as data; from this come the hardware (`RegisterFile`), its golden model, a C
header and a table:

    from amaranth.hdl import Module
    from amaranth.lib import wiring
    from amaranth.lib.wiring import In, Out

    from placerl.primitives.fpga.host import COMMON, AxiLite, Register, RegisterFile, RegisterMap, axi_stream

    MAP = RegisterMap(
        "scaler",
        "Multiplies a stream of numbers.",
        (*COMMON, Register("factor", 0x10, "rw", reset=1, description="What each number is multiplied by.")),
    )

    class Scaler(wiring.Component):
        register_map = MAP                       # the export writes its header and its table

        def __init__(self):
            super().__init__({
                "s_axil": In(AxiLite(MAP.address_bits)),     # in Verilog s_axil_awvalid, s_axil_awready, ...
                "s_axis_numbers": In(axi_stream(32)),        # in Verilog s_axis_numbers_tdata, _tvalid, ...
                "m_axis_products": Out(axi_stream(32)),
            })

        def elaborate(self, platform):
            m = Module()
            m.submodules.registers = registers = RegisterFile(MAP)
            wiring.connect(m, wiring.flipped(self.s_axil), registers.bus)
            m.d.comb += [
                registers.status.busy.eq(...),               # "ro": the design drives the value that a read gives
                registers.events.done.eq(...),               # "w1c": 1 sets the flag, until the host writes 1 to it
                registers.events.packet.eq(...),             # a packet of the host had the wrong length
                started.eq(registers.control.start),         # "pulse": 1 in one cycle after the host writes 1
                factor.eq(registers.factor),                 # "rw": the value that the host wrote last
                self.m_axis_products.payload.data.eq(self.s_axis_numbers.payload.data * registers.factor),
                self.m_axis_products.payload.last.eq(self.s_axis_numbers.payload.last), ...
            ]

In Amaranth, every AXI channel is a `stream.Signature`, so that `primitives.fpga.simulation` drives them all: a stream
of `axi_stream(W)` takes `{"data": ..., "last": ...}`, and the channels of a port `s_axil` are the streams
`s_axil__aw` (`address`), `s_axil__w` (`data`, `strobe`), `s_axil__b` (`response`), `s_axil__ar` (`address`) and
`s_axil__r` (`data`, `response`); `HostAccess(simulation, MAP)` reads and writes registers by name. An
export gives the ports their usual AXI names (`with_axi_names`); `placerl rtl` calls it.

`run_control` connects start, busy and done for a design that runs on its own after a start.

`StreamLink` stands in front of a stream port, in simulation, for PCIe or DDR: cycles of latency, and words per cycle.
"""

from placerl.primitives.fpga.host.access import HostAccess
from placerl.primitives.fpga.host.axi import AxiLite, axi_stream
from placerl.primitives.fpga.host.axi_names import with_axi_names
from placerl.primitives.fpga.host.link import StreamLink
from placerl.primitives.fpga.host.register_map import (
    COMMON,
    AxiResponse,
    Field,
    Register,
    RegisterMap,
    float_word,
)
from placerl.primitives.fpga.host.registers import RegisterFile
from placerl.primitives.fpga.host.run_control import RunControl, run_control

__all__ = [
    "COMMON",
    "AxiLite",
    "AxiResponse",
    "Field",
    "HostAccess",
    "Register",
    "RegisterFile",
    "RegisterMap",
    "RunControl",
    "StreamLink",
    "axi_stream",
    "float_word",
    "run_control",
    "with_axi_names",
]
