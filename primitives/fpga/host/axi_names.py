"""Gives the AXI ports of a design their usual names in Verilog, by which tools find them."""

from typing import Any

from amaranth.hdl import Module, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from primitives.fpga.host.axi import AxiLite, axi_stream

_AXI_LITE = {
    "aw": {"address": "awaddr"},
    "w": {"data": "wdata", "strobe": "wstrb"},
    "b": {"response": "bresp"},
    "ar": {"address": "araddr"},
    "r": {"data": "rdata", "response": "rresp"},
}


def with_axi_names(design: wiring.Component) -> wiring.Component:
    """Return a component that holds `design` and has the ports of AXI under their usual names.

    A port `s_axil` of signature `AxiLite` becomes `s_axil_awaddr`, `s_axil_awvalid`, `s_axil_awready` and so on; a port
    `s_axis` of signature `axi_stream` becomes `s_axis_tdata`, `s_axis_tlast`, `s_axis_tvalid`, `s_axis_tready`. Other
    ports stay. A design without AXI ports is returned itself.

    Args:
        design: a component that has not been elaborated.
    """
    if not any(_is_axi(member) for member in design.signature.members.values()):
        return design
    return _WithAxiNames(design)


def is_axi_stream(signature: Any) -> bool:
    """Return whether a signature comes from `axi_stream`."""
    if not isinstance(signature, stream.Signature):
        return False
    shape = signature.members["payload"].shape
    fields = dict(shape) if hasattr(shape, "members") else {}
    return list(fields) == ["data", "last"] and signature == axi_stream(fields["data"].width)


def _plain(signature: Any) -> Any:
    return signature.flip() if isinstance(signature, wiring.FlippedSignature) else signature


def _is_axi(member: Any) -> bool:
    if member.is_port or member.dimensions:
        return False
    signature = _plain(member.signature)
    return isinstance(signature, AxiLite) or is_axi_stream(signature)


class _WithAxiNames(wiring.Component):
    def __init__(self, design: wiring.Component) -> None:
        self._design = design
        self._connections: list[
            tuple[str, Any, bool]
        ] = []  # port, signal of the design, whether it is an input
        ports: dict[str, Any] = {}
        for name, member in design.signature.members.items():
            if not _is_axi(member):
                ports[name] = member
                continue
            signature, port, is_input = _plain(member.signature), getattr(design, name), member.flow == In
            if isinstance(signature, AxiLite):
                for channel, names in _AXI_LITE.items():
                    into = is_input == (channel in ("aw", "w", "ar"))
                    self._channel(ports, f"{name}_{channel}", getattr(port, channel), into)
                    for field, axi in names.items():
                        self._add(ports, f"{name}_{axi}", getattr(port, channel).payload[field], into)
            else:
                self._channel(ports, f"{name}_t", port, is_input)
                self._add(ports, f"{name}_tdata", port.payload.data, is_input)
                self._add(ports, f"{name}_tlast", port.payload.last, is_input)
        super().__init__(ports)

    def _channel(self, ports: dict[str, Any], prefix: str, port: Any, is_input: bool) -> None:
        self._add(ports, f"{prefix}valid", port.valid, is_input)
        self._add(ports, f"{prefix}ready", port.ready, not is_input)

    def _add(self, ports: dict[str, Any], name: str, value: Any, is_input: bool) -> None:
        ports[name] = (In if is_input else Out)(len(Value.cast(value)))
        self._connections.append((name, value, is_input))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.design = self._design
        for name, value, is_input in self._connections:
            port = getattr(self, name)
            m.d.comb += value.eq(port) if is_input else port.eq(value)
        for name, member in self.signature.members.items():
            if name in self._design.signature.members:
                _join(m, member, getattr(self, name), getattr(self._design, name))
        return m


def _join(m: Module, member: Any, outer: Any, inner: Any) -> None:
    """Connect a port of the design with the port of the same name and direction around it."""
    if not member.is_port:
        wiring.connect(m, wiring.flipped(outer), inner)
    elif member.flow == In:
        m.d.comb += Value.cast(inner).eq(Value.cast(outer))
    else:
        m.d.comb += Value.cast(outer).eq(Value.cast(inner))
