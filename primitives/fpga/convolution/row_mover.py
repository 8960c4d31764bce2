"""Steps through the rows of a product, a line of P numbers per cycle, and through the places where they go."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.convolution.step import LINE_BITS, ProductStep
from placerl.primitives.fpga.gemm.control import INDEX_BITS

FLUSH_BITS = 8


def moved_line(side: int) -> data.StructLayout:
    """Return the layout of a line's place: block and row of the product, lines of the tensor and of the activations."""
    return data.StructLayout(
        {"block": INDEX_BITS, "row": range(side), "line": LINE_BITS, "activation": LINE_BITS}
    )


class RowMover(wiring.Component):
    """Moves the lines of a product's rows, those of a row one after another, and waits until the last is written.

    Ports:
        step: In(ProductStep), constant from `start` on. start: In(1). works: In(1), rows may move.
        free: In(1), a line may move in this cycle. flush: In(FLUSH_BITS), cycles from the last line to its write.
        moves: Out(1), wanted: Out(moved_line), the line that moves in this cycle. ended: Out(1), all lines are written.
    """

    def __init__(self, *, side: int):
        self.side = side
        super().__init__(
            {
                "step": In(ProductStep),
                "start": In(1),
                "works": In(1),
                "free": In(1),
                "flush": In(FLUSH_BITS),
                "moves": Out(1),
                "wanted": Out(moved_line(side)),
                "ended": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        step, to, wanted = self.step, self.step.to, self.wanted
        number, line, flushes, waited = Signal(LINE_BITS), Signal(INDEX_BITS), Signal(), Signal(FLUSH_BITS)
        in_block, activation = Signal(range(self.side)), Signal(LINE_BITS)
        # The lines at which the current pixel, row of pixels and image begin.
        pixel, row, image = (Signal(LINE_BITS, name=n) for n in ("pixel", "row", "image"))
        first_block, column, pixel_row = (
            Signal(INDEX_BITS, name=n) for n in ("first_block", "column", "pixel_row")
        )
        row_ends = line == step.row_lines - 1
        m.d.comb += [
            self.moves.eq(self.works & ~flushes & self.free),
            self.ended.eq(flushes & (waited == self.flush)),
            wanted.block.eq(first_block + line),
            wanted.row.eq(in_block),
            wanted.line.eq(pixel + line),
            wanted.activation.eq(activation),
        ]
        with m.If(self.moves):
            m.d.sync += [line.eq(Mux(row_ends, 0, line + 1)), activation.eq(activation + 1)]
            with m.If(row_ends):
                m.d.sync += [number.eq(number + 1), in_block.eq(in_block + 1)]
                m.d.sync += [column.eq(column + 1), pixel.eq(pixel + to.column_step)]
                with m.If(in_block == self.side - 1):
                    m.d.sync += [in_block.eq(0), first_block.eq(first_block + step.row_lines)]
                with m.If(column == to.columns - 1):
                    m.d.sync += [column.eq(0), pixel_row.eq(pixel_row + 1)]
                    m.d.sync += [each.eq(row + to.row_step) for each in (pixel, row)]
                    with m.If(pixel_row == to.rows - 1):
                        m.d.sync += pixel_row.eq(0)
                        m.d.sync += [each.eq(image + to.image_step) for each in (pixel, row, image)]
                with m.If(number == step.size - 1):
                    m.d.sync += flushes.eq(1)
        with m.If(flushes & ~self.ended):
            m.d.sync += waited.eq(waited + 1)
        with m.If(self.start):
            fresh = (number, line, flushes, waited, first_block, column, pixel_row, in_block)
            m.d.sync += [each.eq(0) for each in fresh]
            m.d.sync += [each.eq(to.first) for each in (pixel, row, image)]
            m.d.sync += activation.eq(step.activations)
        return m
