"""Hardware that several units of a layer share: the format of numbers, and the control of a unit."""

from collections.abc import Sequence

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import Out

from placerl.primitives.fpga.floating_point.words import registered
from placerl.primitives.fpga.learner_pipeline.layer_shape import FORMAT, LayerShape

SUM_BITS = 64
CYCLE_BITS = 24
"""Bits of the number of cycles that a unit without a datapath takes for one sample."""
Number = signed(FORMAT.bits)


def vector(size: int) -> data.ArrayLayout:
    """Return the Amaranth layout of `size` numbers in the learner's fixed-point format, `FORMAT`."""
    return data.ArrayLayout(Number, size)


def stored(m: Module, total: Value, shift: int = FORMAT.fraction_bits) -> Value:
    """Return an exact sum of products in the learner's fixed-point format, rounded (ties upwards) and saturated.

    Args:
        total: the sum, signed, with `shift` more bits after the point than the format has.
        shift: these bits; by default as many as the format's, as a product of two of its numbers has.
    """
    whole = Signal(signed(len(total) - shift + 1))
    m.d.comb += whole.eq((total >> shift) + total[shift - 1])
    return saturated(whole)


def saturated(whole: Value) -> Value:
    """Return an integer as a raw value of the learner's fixed-point format, `FORMAT`.

    An integer beyond the format's range becomes the smallest or the largest raw value.
    """
    low, high = Const(FORMAT.lowest, Number), Const(FORMAT.highest, Number)
    return Mux(whole > FORMAT.highest, high, Mux(whole < FORMAT.lowest, low, whole))[
        : FORMAT.bits
    ].as_signed()


def word_write(layer: LayerShape) -> wiring.Signature:
    """Return the Amaranth signature of a write to a layer's weight memory: enable, address and word."""
    return wiring.Signature(
        {"enable": Out(1), "address": Out(range(layer.words)), "data": Out(layer.word_bits)}
    )


def word_and_part(layer: LayerShape, place: Value) -> tuple[Value, Value]:
    """Return the number of a word, and of a part in it, of a number that counts the parts of all words of a layer."""
    bits = layer.parts.bit_length() - 1
    return (place[bits:], place[:bits]) if bits else (place, Const(0, 1))


def _counter(size: int | Value) -> Signal:
    # One bit if there is one word: Verilog has no signals of zero bits.
    return Signal(range(max(2, size)) if isinstance(size, int) else size.shape())


class Issue:
    """Counts the words that a tensor unit reads for one item, such as a sample, in two nested loops.

    A word is read per cycle. An item enters while the previous one reads its last word, so that words follow without
    a gap. The last word waits until the place of the result is free.

    Args:
        outer, inner: numbers of turns of the outer and of the inner loop, as integers or hardware values.
        start: whether an item is offered.
        may_end: whether the last word may be read.

    Attributes:
        busy: an item is being read.
        outer, inner: the counters of the loops.
        inner_last, last: whether the inner counter, or both, are at their last value.
        go: a word is read in this cycle.
        free: an item can enter in this cycle.
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


class Control:
    """Controls when a unit takes a sample, reads its words and delivers the result, with or without a datapath.

    Args:
        inputs: streams that are taken together.
        result: stream that is delivered one cycle after the last word was read; None if the unit keeps its result.
        outer, inner: numbers of turns of the two loops over a sample's words (`Issue`).

    Attributes:
        issue: the counters of the words.
        taken: a sample enters in this cycle.
        ends: the last word of a sample is available in this cycle.
    """

    def __init__(
        self,
        m: Module,
        inputs: Sequence[stream.Interface],
        result: stream.Interface | None,
        *,
        outer: int | Value,
        inner: int | Value,
    ):
        valid, self.ends = all_of([each.valid for each in inputs]), Signal(name="ends")
        may_end = Const(1) if result is None else ~self.ends & (~result.valid | result.ready)
        self.issue = issue = Issue(m, outer=outer, inner=inner, start=valid, may_end=may_end)
        self.taken = valid & issue.free
        m.d.comb += [each.ready.eq(self.taken) for each in inputs]
        m.d.comb += self.ends.eq(registered(m, issue.go & issue.last))
        if result is not None:
            with m.If(self.ends):
                m.d.sync += result.valid.eq(1)
            with m.Elif(result.ready):
                m.d.sync += result.valid.eq(0)


def all_of(conditions: Sequence[Value]) -> Value:
    """Return a hardware value that is 1 when all conditions hold; there must be at least one."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = result & condition
    return result
