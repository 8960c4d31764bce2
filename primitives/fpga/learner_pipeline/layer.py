"""A layer's sizes and formats, and the hardware that several units share."""

from dataclasses import dataclass

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from primitives.quantization import Q

FORMAT = Q(32, 16)  # of activations, weights and errors
SUM_BITS = 64
Number = signed(FORMAT.bits)


@dataclass(frozen=True)
class LayerShape:
    """A layer and the lanes of its units.

    Weights lie in words of `lanes` outputs: word `block * (inputs + 1) + k` holds the weights from input k, and of
    k = inputs the biases, to outputs `block * lanes` and on.

    Attributes:
        inputs, outputs: neurons.
        lanes: multipliers of each of the layer's units, 1 to `outputs`.
    """

    inputs: int
    outputs: int
    lanes: int

    def __post_init__(self) -> None:
        """Raises ValueError for a size out of range."""
        for name, value, highest in (
            ("inputs", self.inputs, 4096),
            ("outputs", self.outputs, 4096),
            ("lanes", self.lanes, self.outputs),
        ):
            if not 1 <= value <= highest:
                raise ValueError(f"{name}: found {value}; allowed: 1 to {highest}")

    @property
    def blocks(self) -> int:
        """Words of weights from one input."""
        return -(-self.outputs // self.lanes)

    @property
    def words(self) -> int:
        """Words of all weights and biases."""
        return self.blocks * (self.inputs + 1)

    @property
    def word_bits(self) -> int:
        """Of a word of weights."""
        return self.lanes * FORMAT.bits


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


class Issue:
    """Counts the words of one item: what the tensor units read, in which order, and when.

    An item comes in while the one before reads its last word, so that words follow without a gap. The last word waits
    until the place of the result is free.
    """

    def __init__(self, m: Module, *, outer: int, inner: int, start: Value, may_end: Value):
        self.busy, self.outer, self.inner = Signal(), Signal(range(outer)), Signal(range(inner))
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
