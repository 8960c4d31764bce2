"""The layout transformation of tensors in lines of P numbers, which fills memories of matrices (PPO 3.2.1).

Golden model: the tests' `toeplitz`.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from placerl.primitives.fpga.convolution.layout_transform import LayoutTransform
from placerl.primitives.fpga.convolution.step import LINE_BITS, TransformStep
from placerl.primitives.fpga.floating_point.words import WORD_BITS
from placerl.primitives.fpga.gemm.control import INDEX_BITS


class TransformPath(wiring.Component):
    """Moves a line of a tensor per cycle into a row of a block.

    Args:
        side: P, a power of two.

    Ports:
        step: In(TransformStep), start: In(1), in a cycle with `idle`. idle: Out(1).
        read_enable: Out(1), read_line: Out(LINE_BITS): of the tensors' memory; line: In(P x 32), in the next cycle.
        written: Out(1), to_deltas: Out(1), block: Out(INDEX_BITS), row: Out(range(P)), words: Out(P x 32): a row.
    """

    def __init__(self, *, side: int):
        if side < 2 or side & (side - 1):
            raise ValueError(f"side: found {side}; allowed: powers of two, 2 or more")
        self.side = side
        words = data.ArrayLayout(WORD_BITS, side)
        super().__init__(
            {
                "step": In(TransformStep),
                "start": In(1),
                "idle": Out(1),
                "read_enable": Out(1),
                "read_line": Out(LINE_BITS),
                "line": In(words),
                "written": Out(1),
                "to_deltas": Out(1),
                "block": Out(INDEX_BITS),
                "row": Out(range(side)),
                "words": Out(words),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.transform = transform = LayoutTransform(lanes=1)
        moves, step, bits = transform.moves, self.step, exact_log2(self.side)
        move, moving = Signal.like(moves.payload), Signal()
        m.d.comb += [
            transform.commands.valid.eq(self.start),
            transform.commands.payload.eq(step.windows),
            moves.ready.eq(1),
            self.idle.eq(transform.commands.ready & ~moving),
            self.read_enable.eq(moves.valid & (moves.payload.high > moves.payload.low)),
            self.read_line.eq(moves.payload.source[:LINE_BITS]),
            self.written.eq(moving),
            self.to_deltas.eq(step.to_deltas),
            self.block.eq(step.base + (move.row >> bits) * step.pitch + move.column),
            self.row.eq(move.row[:bits]),
            self.words.as_value().eq(Mux(move.high > move.low, self.line.as_value(), 0)),
        ]
        m.d.sync += [move.eq(moves.payload), moving.eq(moves.valid)]
        return m
