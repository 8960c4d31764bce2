import re

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from primitives.fpga import simulation
from primitives.fpga.export import verilog
from primitives.fpga.host import (
    COMMON,
    AxiLite,
    HostAccess,
    Register,
    RegisterFile,
    RegisterMap,
    axi_stream,
    with_axi_names,
)
from primitives.fpga.tools import lint

SCALER = RegisterMap("scaler", "Multiplies numbers.", (*COMMON, Register("factor", 0x10, "rw", reset=1)))


class Scaler(wiring.Component):
    """Multiplies a stream of numbers by a register: the package's example."""

    def __init__(self) -> None:
        super().__init__(
            {
                "s_axil": In(AxiLite(SCALER.address_bits)),
                "s_axis": In(axi_stream(32)),
                "m_axis": Out(axi_stream(32)),
                "plain": In(stream.Signature(8)),
                "echo": Out(stream.Signature(8)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.registers = registers = RegisterFile(SCALER)
        wiring.connect(m, wiring.flipped(self.s_axil), registers.bus)
        wiring.connect(m, wiring.flipped(self.plain), wiring.flipped(self.echo))
        m.d.comb += [
            registers.status.busy.eq(self.s_axis.valid),
            registers.events.done.eq(registers.control.start),
            self.m_axis.payload.data.eq(self.s_axis.payload.data * registers.factor),
            self.m_axis.payload.last.eq(self.s_axis.payload.last),
            self.m_axis.valid.eq(self.s_axis.valid),
            self.s_axis.ready.eq(self.m_axis.ready),
        ]
        return m


def _ports(text: str, top: str) -> dict[str, str]:
    body = text[text.index(f"module {top}(") :].partition("endmodule")[0]
    return {
        name: way for way, name in re.findall(r"^  (input|output) (?:reg )?(?:\[.*?\] )?(\w+);$", body, re.M)
    }


def test_ports_have_the_names_of_axi() -> None:
    text = verilog.export(with_axi_names(Scaler()), "scaler")
    ports = _ports(text, "scaler")
    axil_in = ("awaddr", "awvalid", "wdata", "wstrb", "wvalid", "bready", "araddr", "arvalid", "rready")
    axil_out = ("awready", "wready", "bresp", "bvalid", "arready", "rdata", "rresp", "rvalid")
    expected = {f"s_axil_{name}": "input" for name in axil_in} | {f"s_axil_{n}": "output" for n in axil_out}
    for name, into, back in (("s_axis", "input", "output"), ("m_axis", "output", "input")):
        expected |= {f"{name}_{part}": into for part in ("tdata", "tlast", "tvalid")}
        expected[f"{name}_tready"] = back
    for name, into, back in (("plain", "input", "output"), ("echo", "output", "input")):
        expected |= {f"{name}__payload": into, f"{name}__valid": into, f"{name}__ready": back}
    assert ports == expected | {"clk": "input", "rst": "input"}
    assert lint.warnings(text, "scaler") == []


def test_a_design_without_axi_is_returned_itself() -> None:
    class Plain(wiring.Component):
        numbers: In(8)

        def elaborate(self, platform: object) -> Module:
            return Module()

    plain = Plain()
    assert with_axi_names(plain) is plain
    verilog.export(plain)


@pytest.mark.parametrize("engine", ["interpreted", pytest.param("compiled", marks=pytest.mark.slow)])
def test_the_example_runs(engine: str) -> None:
    model = simulation.engine(engine)(Scaler())
    host = HostAccess(model, SCALER)
    host.write(factor=3, control=1)
    assert host.read("events") == 1
    run = model.run({"s_axis": {"data": [1, 2], "last": [0, 1]}}, {"m_axis": 2})
    assert run.outputs["m_axis"]["data"].tolist() == [3, 6]
    with pytest.raises(RuntimeError, match="SLVERR"):
        host.write(status=1)
