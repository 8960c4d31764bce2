"""The controller of the systolic core, which selects the vectors of A and B that enter the array (PPO 3.2.2).

The product is C = A B, with A of size a x b (PPO: the weights) and B of size b x c (the inputs), cut into blocks of
P x P. It is computed in passes. In a pass, one block stays in the array's P x P elements, while vectors of P numbers
stream through them:

| dataflow | stays in the elements | streams, one vector per cycle | passes, outer to inner | cycles of a pass |
|---|---|---|---|---|
| NS | the sums of a block of C | columns of A and rows of B, b of them | blocks of a, blocks of c | b |
| WS | a block of A | columns of B, c of them | blocks of a, blocks of b | c, or P if more |
| IS | a block of B | rows of A, a of them | blocks of c, blocks of b | a, or P if more |

Passes follow each other without a gap. In the stationary dataflows, WS and IS, the P rows of the next block are
loaded while the vectors stream. Loading takes P cycles: a pass with fewer vectors waits for it, and the first block
is loaded before anything streams. With `block_load` every element has its own memory for the stationary operand. Then
loading a block takes no time, and every pass has as many cycles as vectors, as in PPO's Equation 5.

In float32 (`arithmetic`) a pass of NS works on several blocks of C in turn: their vectors take turns, cycle by
cycle. A pass of WS or IS has at least `shortest_pass` cycles.
"""

from enum import IntEnum
from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.gemm.arithmetic import INTEGER, Arithmetic
from placerl.primitives.fpga.gemm.interleaving import InterleavedBlocks
from placerl.primitives.fpga.gemm.processing_element import Control

INDEX_BITS = 16  # of every count of blocks and vectors


class Dataflow(IntEnum):
    """The dataflow of a product, named by what stays in the elements: only sums (NS), weights (WS) or inputs (IS)."""

    NS = 0
    WS = 1
    IS = 2


class Axis(IntEnum):
    """The direction of a requested vector: it is a part of a row or of a column of its matrix."""

    ROW = 0
    COLUMN = 1


# One product. Every count is at least 1.
GemmCommand = data.StructLayout(
    {
        "dataflow": Dataflow,
        "a_blocks": INDEX_BITS,  # ceil(a / P)
        "b_blocks": INDEX_BITS,
        "c_blocks": INDEX_BITS,
        "vectors": INDEX_BITS,  # the size of the dimension that streams: b (NS), c (WS), a (IS)
        "halves": 1,  # the words of the operand from the left (A; B in WS) carry two activations each
    }
)

# P elements of one row or column of a matrix within one block: the address that a memory answers.
VectorRequest = data.StructLayout(
    {
        "valid": 1,  # a vector is requested
        "axis": Axis,
        "block_row": INDEX_BITS,  # the block of P x P
        "block_column": INDEX_BITS,
        "offset": INDEX_BITS,  # which row or column of the block, 0 to P - 1
    }
)


class GemmController(wiring.Component):
    """Steps through the blocks of a product and requests the vectors of A and B from their memories.

    A command may follow the previous one without an idle cycle.

    Args:
        block_load: whether a stationary block is loaded at once. Then the request for the stationary operand names a
            block, in the first cycle of its pass.
        arithmetic: how many blocks a pass of NS works on in turn, and how short a stationary pass may be. With more
            than one block, `ready` must always be 1, and `block_load` is required.

    Ports:
        command: In(stream of GemmCommand), a product's sizes and dataflow; taken when idle or in the last step of the
            previous command.
        drained: In(1), no operand is in the array: the dataflow may change.
        a, b: Out(VectorRequest), the rows or columns of a block of A and B that are requested in this cycle.
        ready: In(1), both requests are taken; otherwise they are repeated.
        control: Out(Control), the control signals of the vector that enters the array's rows, in the
            cycle of its request.
        load: Out(1), the vector that enters the columns is a row of a stationary block. load_row:
            Out(range(P)), which row.
        dataflow: Out(Dataflow), halves: Out(1), of the current command.
    """

    def __init__(self, *, side: int, block_load: bool = False, arithmetic: Arithmetic = INTEGER):
        self.side, self.block_load, self.arithmetic = side, block_load, arithmetic
        super().__init__(
            {
                "command": In(stream.Signature(GemmCommand)),
                "drained": In(1),
                "a": Out(VectorRequest),
                "b": Out(VectorRequest),
                "ready": In(1),
                "control": Out(Control),
                "load": Out(1),
                "load_row": Out(range(side)),
                "dataflow": Out(Dataflow),
                "halves": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        command = Signal(GemmCommand)
        index = {"shape": INDEX_BITS}
        # The block whose vectors stream, as (outer, inner) loop counters; the block that is loaded; the step in
        # the pass.
        outer, inner, load_outer, load_inner, step = (
            Signal(**index, name=n) for n in ("outer", "inner", "load_outer", "load_inner", "step")
        )
        streaming, loading = Signal(), Signal()
        stationary = Signal()
        m.d.comb += [stationary.eq(command.dataflow != Dataflow.NS), self.dataflow.eq(command.dataflow)]
        m.d.comb += self.halves.eq(command.halves)

        outer_blocks = Mux(command.dataflow == Dataflow.IS, command.c_blocks, command.a_blocks)
        inner_blocks = Mux(stationary, command.b_blocks, command.c_blocks)

        # The step as block and offset.
        block, offset = Signal(**index), Signal(range(self.side))
        at_block_end = offset == self.side - 1

        stream_now, load_now = Signal(), Signal()
        m.d.comb += stream_now.eq(streaming & (step < command.vectors))
        m.d.comb += load_now.eq(loading & (step < self.side))
        stream_ends = ~streaming | (step + 1 >= command.vectors)
        if self.arithmetic.shortest_pass > 1:
            long_enough = step + 1 >= self.arithmetic.shortest_pass
            stream_ends = ~streaming | ((step + 1 >= command.vectors) & (~stationary | long_enough))
        load_ends = ~loading | (step + 1 >= self.side)
        active, pass_ends, command_ends = streaming | loading, Signal(), Signal()
        moves, row, column = active & self.ready, outer, inner
        interleaved = None
        if self.arithmetic.interleaved > 1:
            interleaved = InterleavedBlocks(
                m,
                self.arithmetic.interleaved,
                outer,
                inner,
                outer_blocks,
                inner_blocks,
                stationary,
                active,
            )
            moves, row, column = moves & interleaved.ends, interleaved.outer, interleaved.inner
            stream_now = stream_now & interleaved.exists
        m.d.comb += pass_ends.eq(moves & stream_ends & load_ends)

        def is_last(outer: Any, inner: Any) -> Any:
            return (outer == outer_blocks - 1) & (inner == inner_blocks - 1)

        def advance(outer: Any, inner: Any) -> list[Any]:
            wraps = inner == inner_blocks - 1
            return [inner.eq(Mux(wraps, 0, inner + 1)), outer.eq(outer + wraps)]

        in_turn = ~stationary | self.block_load  # passes need no load before them
        last_pass, next_pass = is_last(outer, inner), advance(outer, inner)
        if interleaved:
            last_pass = interleaved.is_last
            next_pass = [inner.eq(interleaved.next_inner), outer.eq(interleaved.next_outer)]
        m.d.comb += command_ends.eq(pass_ends & streaming & ~loading & (~in_turn | last_pass))
        with m.If(moves):
            m.d.sync += [
                step.eq(step + 1),
                offset.eq(Mux(at_block_end, 0, offset + 1)),
                block.eq(block + at_block_end),
            ]
        with m.If(pass_ends):
            m.d.sync += [step.eq(0), offset.eq(0), block.eq(0)]
            with m.If(~in_turn):
                m.d.sync += [outer.eq(load_outer), inner.eq(load_inner), streaming.eq(1)]
                m.d.sync += advance(load_outer, load_inner)
                m.d.sync += loading.eq(loading & ~is_last(load_outer, load_inner))
            with m.Else():
                m.d.sync += next_pass
        with m.If(command_ends):
            m.d.sync += [streaming.eq(0), loading.eq(0)]

        # A change of dataflow must wait until the array is empty.
        incoming = self.command.payload
        same = (incoming.dataflow == command.dataflow) & (incoming.halves == command.halves)
        m.d.comb += self.command.ready.eq((~active & (same | self.drained)) | (command_ends & same))
        with m.If(self.command.valid & self.command.ready):
            fresh = (outer, inner, load_outer, load_inner, step, offset, block)
            m.d.sync += [command.eq(incoming), *(counter.eq(0) for counter in fresh)]
            streams_at_once = (incoming.dataflow == Dataflow.NS) | self.block_load
            m.d.sync += [streaming.eq(streams_at_once), loading.eq(~streams_at_once)]

        m.d.comb += [
            self.control.valid.eq(stream_now & self.ready),
            self.control.first.eq(step == 0),
            self.control.last.eq(Mux(stationary, inner == inner_blocks - 1, step == command.vectors - 1)),
            self.control.restart.eq(stationary & (inner == 0)),
            self.load.eq(load_now & self.ready),
            self.load_row.eq(step),
        ]

        def request(port: Any, valid: Any, axis: Axis, row: Any, column: Any, at: Any) -> list[Any]:
            return [
                port.valid.eq(valid),
                port.axis.eq(axis),
                port.block_row.eq(row),
                port.block_column.eq(column),
                port.offset.eq(at),
            ]

        if self.block_load:
            load_now, load_outer, load_inner = stream_now & (step == 0), outer, inner
        with m.Switch(command.dataflow):
            with m.Case(Dataflow.NS):
                m.d.comb += request(self.a, stream_now, Axis.COLUMN, row, block, offset)
                m.d.comb += request(self.b, stream_now, Axis.ROW, block, column, offset)
            with m.Case(Dataflow.WS):
                m.d.comb += request(self.a, load_now, Axis.COLUMN, load_outer, load_inner, step)
                m.d.comb += request(self.b, stream_now, Axis.COLUMN, inner, block, offset)
            with m.Case(Dataflow.IS):
                m.d.comb += request(self.a, stream_now, Axis.ROW, block, inner, offset)
                m.d.comb += request(self.b, load_now, Axis.ROW, load_inner, load_outer, step)
        return m
