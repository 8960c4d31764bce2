"""The hardware that several units of a layer share."""

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from primitives.fpga.learner_pipeline.layer_shape import FORMAT, LayerShape

SUM_BITS = 64
Number = signed(FORMAT.bits)


def vector(size: int) -> data.ArrayLayout:
    """The shape of `size` numbers."""
    return data.ArrayLayout(Number, size)


def stored(m: Module, total: Value) -> Value:
    """An exact sum of products as a number of `FORMAT`: rounded, ties upwards, and saturated."""
    shift = FORMAT.fraction_bits
    whole = Signal(signed(len(total) - shift + 1))
    m.d.comb += whole.eq((total >> shift) + total[shift - 1])
    return saturated(whole)


def saturated(whole: Value) -> Value:
    """A whole number as a raw number of `FORMAT`."""
    low, high = Const(FORMAT.lowest, Number), Const(FORMAT.highest, Number)
    return Mux(whole > FORMAT.highest, high, Mux(whole < FORMAT.lowest, low, whole))[
        : FORMAT.bits
    ].as_signed()


def word_write(layer: LayerShape) -> wiring.Signature:
    """What writes a layer's memory of weights: enable, address and word."""
    return wiring.Signature(
        {"enable": Out(1), "address": Out(range(layer.words)), "data": Out(layer.word_bits)}
    )


def _counter(size: int | Value) -> Signal:
    # One bit where there is one word: Verilog has no signal of none.
    return Signal(range(max(2, size)) if isinstance(size, int) else size.shape())


class Issue:
    """Counts the words of one item: what the tensor units read, in which order, and when.

    An item comes in while the one before reads its last word, so that words follow without a gap. The last word waits
    until the place of the result is free. `outer` and `inner` are how many words: numbers, or values of the hardware.
    """

    def __init__(self, m: Module, *, outer: int | Value, inner: int | Value, start: Value, may_end: Value):
        self.busy, self.outer, self.inner = Signal(), _counter(outer), _counter(inner)
        self.inner_last = self.inner == inner - 1
        self.last = self.inner_last & (self.outer == outer - 1)
        self.go = Signal()
        m.d.comb += self.go.eq(self.busy & (~self.last | may_end))
        self.free = Signal()
        m.d.comb += self.free.eq(~self.busy | (self.go & self.last))
        with m.If(self.go):
            m.d.sync += self.inner.eq(Mux(self.inner_last, 0, self.inner + 1))
            with m.If(self.inner_last):
                m.d.sync += self.outer.eq(Mux(self.last, 0, self.outer + 1))
            with m.If(self.last):
                m.d.sync += self.busy.eq(0)
        with m.If(start & self.free):
            m.d.sync += self.busy.eq(1)
