"""The hardware of a register map: an AXI4-Lite subordinate. Golden model: the tests' `GoldenRegisters`."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.host.axi import AxiLite
from placerl.primitives.fpga.host.register_map import (
    WORD_BITS,
    WORD_BYTES,
    AxiResponse,
    Register,
    RegisterMap,
)


def shape_of(register: Register) -> Any:
    """Return the Amaranth shape of a register: its width, or a layout of its fields if it has any."""
    if not register.fields:
        return register.width
    return data.FlexibleLayout(
        register.width, {field.name: data.Field(field.width, field.lowest_bit) for field in register.fields}
    )


class RegisterFile(wiring.Component):
    """Registers that a host reads and writes. Write address and data may come in any order.

    A write takes effect one cycle after its address and its data are there, and as soon as the response before it
    has been taken. A read is answered one cycle after its address; the next address is taken once the answer has been.
    Reads and writes do not wait for each other.

    Ports:
        bus: In(AxiLite).
        For each register a port with its name, and the shape `shape_of`:
            "rw": Out, the value. "pulse": Out, 1 in the cycle after a write for the bits that were written as 1.
            "ro": In, the value that a read gives; it is taken in the cycle of the read address.
            "w1c": In, the flags to set in this cycle; setting wins over clearing. `NAME_flags` (out): the flags.
    """

    def __init__(self, register_map: RegisterMap) -> None:
        self.map = register_map
        ports: dict[str, Any] = {"bus": In(AxiLite(register_map.address_bits))}
        for register in register_map.registers:
            shape, is_input = shape_of(register), register.access in ("ro", "w1c")
            start: Any = register.reset if register.access == "rw" else None
            if start is not None and register.fields:
                start = {f.name: start >> f.lowest_bit & ((1 << f.width) - 1) for f in register.fields}
            ports[register.name] = In(shape) if is_input else Out(shape, init=start)
            if register.access == "w1c":
                ports[f"{register.name}_flags"] = Out(register.width, init=register.reset)
        super().__init__(ports)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        self._reads(m)
        self._writes(m)
        return m

    def _reads(self, m: Module) -> None:
        ar, r = self.bus.ar, self.bus.r
        with m.If(r.ready):
            m.d.sync += r.valid.eq(0)
        m.d.comb += ar.ready.eq(~r.valid)  # no path from rready to arready
        with m.If(ar.valid & ar.ready):
            m.d.sync += [r.valid.eq(1), r.payload.data.eq(0), r.payload.response.eq(AxiResponse.OKAY)]
            with m.Switch(_word(ar.payload.address)):
                for register in self.map.registers:
                    with m.Case(register.address // WORD_BYTES):
                        if register.access != "pulse":
                            name = f"{register.name}_flags" if register.access == "w1c" else register.name
                            m.d.sync += r.payload.data.eq(Value.cast(getattr(self, name)))
                with m.Default():
                    m.d.sync += r.payload.response.eq(AxiResponse.SLVERR)

    def _writes(self, m: Module) -> None:
        aw, w, b = self.bus.aw, self.bus.w, self.bus.b
        address, has_address = Signal.like(_word(aw.payload.address)), Signal()
        written, has_data = Signal.like(w.payload), Signal()
        writes = Signal()
        m.d.comb += [
            aw.ready.eq(~has_address),
            w.ready.eq(~has_data),
            writes.eq(has_address & has_data & (~b.valid | b.ready)),
        ]
        with m.If(aw.valid & aw.ready):
            m.d.sync += [address.eq(_word(aw.payload.address)), has_address.eq(1)]
        with m.If(w.valid & w.ready):
            m.d.sync += [written.eq(w.payload), has_data.eq(1)]
        with m.If(b.ready):
            m.d.sync += b.valid.eq(0)
        mask = Cat(bit.replicate(8) for bit in written.strobe)
        selected = Signal(WORD_BITS)
        m.d.comb += selected.eq(written.data & mask)
        for register in self.map.registers:
            if register.access == "pulse":
                m.d.sync += Value.cast(getattr(self, register.name)).eq(0)
            elif register.access == "w1c":
                flags = getattr(self, f"{register.name}_flags")
                here = writes & (address == register.address // WORD_BYTES)
                m.d.sync += flags.eq(
                    flags & ~Mux(here, selected[: register.width], 0)
                    | Value.cast(getattr(self, register.name))
                )
        with m.If(writes):
            m.d.sync += [
                has_address.eq(0),
                has_data.eq(0),
                b.valid.eq(1),
                b.payload.response.eq(AxiResponse.OKAY),
            ]
            with m.Switch(address):
                for register in self.map.registers:
                    if register.access == "ro":
                        continue
                    with m.Case(register.address // WORD_BYTES):
                        value = Value.cast(getattr(self, register.name))
                        if register.access == "pulse":
                            m.d.sync += value.eq(selected)
                        elif register.access == "rw":
                            m.d.sync += value.eq(value & ~mask | selected)
                with m.Default():
                    m.d.sync += b.payload.response.eq(AxiResponse.SLVERR)


def _word(address: Any) -> Any:
    """Return the number of the word at a byte address."""
    return address[WORD_BYTES.bit_length() - 1 :]
