import re

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.export import verilog
from placerl.primitives.fpga.host import HostAccess, with_axi_names
from tests.primitives.fpga.bench.scaler import MAP, Scaler
from tests.primitives.fpga.interpreter import Start, interpreted
from tests.primitives.fpga.tools import lint


class WithPlainPorts(wiring.Component):
    """The scaler next to a stream that is none of AXI's."""

    def __init__(self) -> None:
        self._scaler = Scaler()
        members = dict(self._scaler.signature.members)
        super().__init__({**members, "plain": In(stream.Signature(8)), "echo": Out(stream.Signature(8))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.scaler = self._scaler
        for name in self._scaler.signature.members:
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(self._scaler, name))
        wiring.connect(m, wiring.flipped(self.plain), wiring.flipped(self.echo))
        return m


def _ports(text: str, top: str) -> dict[str, str]:
    body = text[text.index(f"module {top}(") :].partition("endmodule")[0]
    return {
        name: way for way, name in re.findall(r"^  (input|output) (?:reg )?(?:\[.*?\] )?(\w+);$", body, re.M)
    }


def test_ports_have_the_names_of_axi() -> None:
    text = verilog.export(with_axi_names(WithPlainPorts()), "scaler")
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


@pytest.mark.parametrize("start", [interpreted, pytest.param(simulation.compiled, marks=pytest.mark.slow)])
def test_the_example_runs(start: Start) -> None:
    model = start(Scaler())
    host = HostAccess(model, MAP)
    host.write(factor=3, control=1)
    assert host.read("events") == 1
    run = model.run({"s_axis": {"data": [1, 2], "last": [0, 1]}}, {"m_axis": 2})
    assert run.outputs["m_axis"]["data"].tolist() == [3, 6]
    with pytest.raises(RuntimeError, match="SLVERR"):
        host.write(status=1)
