"""Gives the AXI ports of a design their usual names in Verilog, by which tools find them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.host.axi import AxiLite, axi_stream

_AXI_LITE = {
    "aw": {"address": "awaddr"},
    "w": {"data": "wdata", "strobe": "wstrb"},
    "b": {"response": "bresp"},
    "ar": {"address": "araddr"},
    "r": {"data": "rdata", "response": "rresp"},
}


@dataclass(frozen=True)
class NamedPort:
    """A port as an export has it.

    Attributes:
        name: its name in Verilog.
        value: the design's signal, or a part of one.
        is_input: whether the design reads it.
        valid: name of the port that says in which cycles the value counts; empty if it always does.
    """

    name: str
    value: Any
    is_input: bool
    valid: str = ""


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


def axi_ports(name: str, member: Any, port: Any) -> Iterator[NamedPort]:
    """Yield the Verilog ports of a member of signature `AxiLite` or `axi_stream`; nothing for another member.

    Args:
        name: the member's name.
        member: from the design's signature.
        port: the design's interface object.
    """
    if not _is_axi(member):
        return
    signature, is_input = _plain(member.signature), member.flow == In
    if not isinstance(signature, AxiLite):
        yield from _channel(f"{name}_t", port, {"data": "tdata", "last": "tlast"}, f"{name}_", is_input)
        return
    for channel, names in _AXI_LITE.items():
        into = is_input == (channel in ("aw", "w", "ar"))
        yield from _channel(f"{name}_{channel}", getattr(port, channel), names, f"{name}_", into)


def _channel(
    handshake: str, channel: Any, names: dict[str, str], prefix: str, is_input: bool
) -> Iterator[NamedPort]:
    for field, axi in names.items():
        yield NamedPort(f"{prefix}{axi}", Value.cast(channel.payload[field]), is_input, f"{handshake}valid")
    yield NamedPort(f"{handshake}valid", channel.valid, is_input)
    yield NamedPort(f"{handshake}ready", channel.ready, not is_input)


class _WithAxiNames(wiring.Component):
    def __init__(self, design: wiring.Component) -> None:
        self._design = design
        self._named: list[NamedPort] = []
        ports: dict[str, Any] = {}
        for name, member in design.signature.members.items():
            if not _is_axi(member):
                ports[name] = member
                continue
            for port in axi_ports(name, member, getattr(design, name)):
                ports[port.name] = (In if port.is_input else Out)(len(port.value))
                self._named.append(port)
        super().__init__(ports)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.design = self._design
        for named in self._named:
            port = getattr(self, named.name)
            m.d.comb += named.value.eq(port) if named.is_input else port.eq(named.value)
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
