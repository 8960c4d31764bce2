"""Times a layer on FIXAR's adaptive array by its control unit alone, without the datapath (FIX V-B).

The control unit first loads blocks of weights into the cores. Then all vectors stream through the cores, while the
next blocks are loaded, and so on for every block. After the last vector the array adds a constant that depends on its
size. The cycles equal those of the whole array, as the tests check.
"""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.adaptive_array.array import core_latency
from placerl.primitives.fpga.cycles.fixar import layer_passes, layer_words

COUNT_BITS = 32

# One layer: its passes, the words that stream in each, and the rows of weights per pass.
LayerCommand = data.StructLayout({"passes": COUNT_BITS, "words": COUNT_BITS, "rows": COUNT_BITS})


def command_fields(
    outputs: int, inputs: int, vectors: int, *, cores: int, side: int, inference: bool, halves: bool = False
) -> dict[str, int]:
    """Return the fields of the `LayerCommand`, with which an `AdaptiveTimer` times a layer.

    Args:
        outputs, inputs: the layer's numbers of outputs and of inputs.
        vectors: number of input vectors, such as the batch size.
        cores: N, number of cores.
        side: P, rows and columns of a core.
        inference: whether the cores share the layer; otherwise they share the vectors.
        halves: whether a word carries two activations of half the width.

    Returns:
        `passes`, the number of times that cores use one block of weights each; `words`, the number that stream through
        each core in a pass; `rows` of weights that are loaded for a pass.
    """
    return {
        "passes": layer_passes(outputs, inputs, cores=cores, side=side, inference=inference),
        "words": layer_words(vectors, cores=cores, inference=inference, halves=halves),
        "rows": side * (cores if inference else 1),
    }


class AdaptiveTimer(wiring.Component):
    """Counts the cycles of layers on the adaptive array, one after another.

    Args:
        side: P, rows and columns of a core.

    Ports:
        commands: In(stream of LayerCommand), a layer each: the fields that `command_fields` returns.
        cycles: Out(stream of 32): the cycles of each layer, from the first row of weights to the last sum.
    """

    def __init__(self, *, side: int):
        self.side = side
        super().__init__(
            {
                "commands": In(stream.Signature(LayerCommand)),
                "cycles": Out(stream.Signature(COUNT_BITS)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        command = Signal(LayerCommand)
        running, since = Signal(), Signal(COUNT_BITS)
        # The turn whose rows are loaded, and the one whose vectors stream, one turn later.
        turn, row, word = Signal(COUNT_BITS), Signal(COUNT_BITS), Signal(COUNT_BITS)
        loads, streams = Signal(), Signal()
        m.d.comb += [
            loads.eq(running & (turn != command.passes) & (row != command.rows)),
            streams.eq(running & (turn != 0) & (word != command.words)),
            self.commands.ready.eq(~running & ~self.cycles.valid),
        ]
        loaded = (turn == command.passes) | (row + loads == command.rows)
        streamed = (turn == 0) | (word + streams == command.words)
        with m.If(running):
            m.d.sync += since.eq(since + 1)
            m.d.sync += [row.eq(row + loads), word.eq(word + streams)]
            with m.If(loaded & streamed):
                m.d.sync += [turn.eq(turn + 1), row.eq(0), word.eq(0)]
                with m.If(turn == command.passes):
                    m.d.sync += [running.eq(0), self.cycles.valid.eq(1)]
                    m.d.sync += self.cycles.payload.eq(since + 1 + core_latency(self.side))
        with m.If(self.commands.valid & self.commands.ready):
            cleared = [counter.eq(0) for counter in (turn, row, word, since)]
            m.d.sync += [command.eq(self.commands.payload), running.eq(1), *cleared]
        with m.If(self.cycles.valid & self.cycles.ready):
            m.d.sync += self.cycles.valid.eq(0)
        return m
