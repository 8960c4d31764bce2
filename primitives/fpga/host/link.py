"""A model of a link, or of DDR memory, between a host and a stream port: a latency, and a rate of words.

For simulation: a real link has its own hardware.
"""

from fractions import Fraction
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.export.ram import Ram


class StreamLink(wiring.Component):
    """Delivers the words of a stream after a latency, at a limited rate. While the receiver stalls, all words stall.

    Links in series add their latencies and have the slowest one's rate.

    Ports:
        inputs (in, stream of `shape`), outputs (out, stream of `shape`).

    Args:
        latency_cycles: from taking a word to delivering it, at least 2.
        words_per_cycle: the rate, above 0 and at most 1; after a pause one word is taken at once.
    """

    def __init__(self, shape: Any, *, latency_cycles: int, words_per_cycle: Fraction | int = 1) -> None:
        if latency_cycles < 2:
            raise ValueError(f"latency_cycles: found {latency_cycles}; allowed: at least 2")
        if not 0 < words_per_cycle <= 1:
            raise ValueError(f"words_per_cycle: found {words_per_cycle}; allowed: above 0, at most 1")
        self.latency_cycles, self.words_per_cycle = latency_cycles, Fraction(words_per_cycle)
        super().__init__({"inputs": In(stream.Signature(shape)), "outputs": Out(stream.Signature(shape))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        payload = Value.cast(self.inputs.payload)
        depth = self.latency_cycles - 1
        m.submodules.line = line = Ram(width=len(payload) + 1, depth=depth)
        running, place = Signal(), Signal(range(max(2, depth)))
        earned, price = self.words_per_cycle.numerator, self.words_per_cycle.denominator
        credit = Signal(range(price + earned), init=price)
        affordable, taken = Signal(), Signal()
        m.d.comb += [
            running.eq(~self.outputs.valid | self.outputs.ready),
            affordable.eq(credit >= price),
            self.inputs.ready.eq(running & affordable),
            taken.eq(self.inputs.valid & self.inputs.ready),
            line.write_enable.eq(running),
            line.write_address.eq(place),
            line.write_data.eq(Cat(taken, payload)),
            # The old word of this place: what was written `depth` cycles ago, one cycle before it is delivered.
            line.read_enable.eq(running),
            line.read_address.eq(place),
            Cat(self.outputs.valid, Value.cast(self.outputs.payload)).eq(line.read_data),
        ]
        with m.If(running):
            m.d.sync += place.eq(Mux(place == depth - 1, 0, place + 1))
            with m.If(taken):
                m.d.sync += credit.eq(credit - price + earned)
            with m.Elif(~affordable):
                m.d.sync += credit.eq(credit + earned)
        return m
