"""Moves all weights between the host's stream of 32-bit words and the learner's memories.

The order is that of the memories (`LayerShape`): layer by layer, word by word, lane by lane. A word of these ports is
a part of a memory's word, as the update unit has it.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.floating_point.words import WORD_BITS
from placerl.primitives.fpga.host import axi_stream
from placerl.primitives.fpga.learner_pipeline.layer_shape import LayerShape


class _Place:
    """Counts through layers, words and lanes.

    Attributes:
        layer, address, lane: where the next number belongs.
        last_lane, last: it is the last one of its word, or of all weights.
    """

    def __init__(self, m: Module, layers: Sequence[LayerShape]):
        self.layer = Signal(range(max(2, len(layers))))
        self.address = Signal(range(max(2, *(layer.update_words for layer in layers))))
        self.lane = Signal(range(max(2, *(layer.updates for layer in layers))))
        lanes = Array([layer.updates for layer in layers])[self.layer]
        words = Array([layer.update_words for layer in layers])[self.layer]
        self.last_lane = self.lane == lanes - 1
        self._last_word = self.address == words - 1
        self._last_layer = self.layer == len(layers) - 1
        self.last = self.last_lane & self._last_word & self._last_layer

    def restart(self, m: Module) -> None:
        """Go back to the first number."""
        m.d.sync += [self.lane.eq(0), self.address.eq(0), self.layer.eq(0)]

    def advance(self, m: Module) -> None:
        """Add a step to the next number."""
        m.d.sync += self.lane.eq(Mux(self.last_lane, 0, self.lane + 1))
        with m.If(self.last_lane):
            m.d.sync += self.address.eq(Mux(self._last_word, 0, self.address + 1))
            with m.If(self._last_word):
                m.d.sync += self.layer.eq(Mux(self._last_layer, 0, self.layer + 1))


class WeightLoader(wiring.Component):
    """Writes the numbers of a stream into the weight memories of all layers, of which it needs all.

    Ports:
        words: In(axi_stream(32)): float32 numbers. After a packet's end the next number is the first.
        breaks: Out(1), a packet ends before the last number.
        load_<l>: Out(stream of address and weights): always taken at once.
    """

    def __init__(self, layers: Sequence[LayerShape]):
        self.layers = tuple(layers)
        members: dict[str, Any] = {"words": In(axi_stream(WORD_BITS)), "breaks": Out(1)}
        for number, layer in enumerate(layers):
            word = {
                "address": range(layer.update_words),
                "weights": data.ArrayLayout(WORD_BITS, layer.updates),
            }
            members[f"load_{number}"] = Out(stream.Signature(data.StructLayout(word)))
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        place = _Place(m, self.layers)
        kept = Signal(WORD_BITS * max(layer.updates for layer in self.layers))
        both = Cat(kept[WORD_BITS:], self.words.payload.data)
        m.d.comb += [
            self.words.ready.eq(1),
            self.breaks.eq(self.words.valid & self.words.payload.last & ~place.last),
        ]
        with m.If(self.words.valid):
            m.d.sync += kept.eq(both)
            place.advance(m)
        with m.If(self.breaks):
            place.restart(m)
        for number, layer in enumerate(self.layers):
            load = getattr(self, f"load_{number}")
            m.d.comb += [
                load.valid.eq(self.words.valid & place.last_lane & (place.layer == number)),
                load.payload.address.eq(place.address),
                load.payload.weights.as_value().eq(both[-WORD_BITS * layer.updates :]),
            ]
        return m


class WeightReader(wiring.Component):
    """Sends all weights, as a packet of a stream.

    Ports:
        start: In(1), starts to send. busy: Out(1), it sends.
        read: Out(1), address: Out: a word of every layer is read. read_<l>: In(updates x 32), it, a cycle later.
        words: Out(axi_stream(32)): float32 numbers.
    """

    def __init__(self, layers: Sequence[LayerShape]):
        self.layers = tuple(layers)
        super().__init__(
            {
                "start": In(1),
                "busy": Out(1),
                "read": Out(1),
                "address": Out(range(max(2, *(layer.update_words for layer in layers)))),
                "words": Out(axi_stream(WORD_BITS)),
                **{
                    f"read_{number}": In(data.ArrayLayout(WORD_BITS, layer.updates))
                    for number, layer in enumerate(layers)
                },
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        place = _Place(m, self.layers)
        lanes = range(max(layer.updates for layer in self.layers))
        m.d.comb += [
            self.address.eq(place.address),
            self.words.payload.last.eq(place.last),
        ]
        with m.Switch(place.layer):
            for number, layer in enumerate(self.layers):
                with m.Case(number):
                    port = getattr(self, f"read_{number}")
                    number_of_lane = Array(port[min(lane, layer.updates - 1)] for lane in lanes)
                    m.d.comb += self.words.payload.data.eq(number_of_lane[place.lane])
        with m.FSM():
            with m.State("IDLE"), m.If(self.start):
                m.next = "READ"
            with m.State("READ"):
                m.d.comb += [self.busy.eq(1), self.read.eq(1)]
                m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += [self.busy.eq(1), self.words.valid.eq(1)]
                with m.If(self.words.ready):
                    place.advance(m)
                    with m.If(place.last):
                        m.next = "IDLE"
                    with m.Elif(place.last_lane):
                        m.next = "READ"
        return m
