"""A register for a stream in both directions, so that no path from `ready` to `ready` passes through it."""

from typing import Any

from amaranth import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class StreamRegister(wiring.Component):
    """Delays a stream by one cycle, and takes an item per cycle.

    `valid`, the payload and `ready` all come from registers. A second register keeps the item that arrives in the
    cycle in which the receiver stops.

    Ports:
        items (in, stream of `shape`), out (out, stream of `shape`).
    """

    def __init__(self, shape: Any) -> None:
        self.shape = shape
        super().__init__({"items": In(stream.Signature(shape)), "out": Out(stream.Signature(shape))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        arrived, leaving = Value.cast(self.items.payload), Value.cast(self.out.payload)
        spare, spare_valid = Signal(len(arrived)), Signal()
        m.d.comb += self.items.ready.eq(~spare_valid)
        with m.If(self.out.ready | ~self.out.valid):
            m.d.sync += [
                self.out.valid.eq(spare_valid | self.items.valid),
                leaving.eq(Mux(spare_valid, spare, arrived)),
                spare_valid.eq(0),
            ]
        with m.Elif(self.items.valid & self.items.ready):
            m.d.sync += [spare.eq(arrived), spare_valid.eq(1)]
        return m
