"""Memories of matrices in the blocked and in the plain layout (PPO 3.2.2.2, Fig. 6 and 7).

They answer a `VectorRequest`. Both layouts store one element per word and give P of them per cycle along a row. They
differ along a column:

- **Blocked**: P x P banks; element (r, c) is in bank (r mod P, c mod P), so that rows and columns of a block come
  from P different banks: no stall in either direction.
- **Plain**: P banks, row-major; element (r, c) is in bank c mod P. A column of a block is in one bank, so its P rows
  are first read into P x P registers: a stall of P + 1 cycles for each block that is not the current one.

Several matrices share the banks, each with its own `base` (Fig. 7).

The golden model is NumPy's indexing: a row or a column of the block.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.gemm.control import INDEX_BITS, Axis, VectorRequest


class _MatrixBuffer(wiring.Component):
    """The arguments and ports of both layouts.

    Args:
        side: P, 2 or more.
        blocks: number of P x P blocks that fit.

    Ports:
        request: In(VectorRequest), ready: Out(1), in the same cycle: the request is taken.
        data: Out(P x width), the vector, in the cycle after its request was taken.
        base: In(INDEX_BITS), the first block of the requested matrix; pitch: In(INDEX_BITS), its blocks in a row.
        write_enable: In(1), write_block: In(INDEX_BITS), write_row: In(range(P)), write_data: In(P x width): writes
            that row of a block at the cycle's end. A reader sees it from the next request on.
    """

    def __init__(self, *, side: int, width: int, blocks: int):
        if side < 2 or width < 1 or blocks < 1:
            raise ValueError(
                f"side, width, blocks: found {side}, {width}, {blocks}; allowed: side 2 or more, others 1 or more"
            )
        self.side, self.width, self.blocks = side, width, blocks
        vector = data.ArrayLayout(width, side)
        super().__init__(
            {
                "request": In(VectorRequest),
                "ready": Out(1),
                "data": Out(vector),
                "base": In(INDEX_BITS),
                "pitch": In(INDEX_BITS),
                "write_enable": In(1),
                "write_block": In(INDEX_BITS),
                "write_row": In(range(side)),
                "write_data": In(vector),
            }
        )

    def _block(self, m: Module) -> Signal:
        """Return the number of the block that the request names."""
        block = Signal(INDEX_BITS)
        m.d.comb += block.eq(self.base + self.request.block_row * self.pitch + self.request.block_column)
        return block


def select_vector(m: Module, request: Any, words: Sequence[Sequence[Any]], vector: Any) -> None:
    """Drive `vector` with the row or column that `request` named one cycle ago.

    Args:
        request: a `VectorRequest`, of which the axis and the offset are used.
        words: the P x P words that the banks give in this cycle, row by row.
        vector: the P words to drive.
    """
    offset, axis = Signal(range(len(words))), Signal()
    with m.If(request.valid):
        m.d.sync += [offset.eq(request.offset), axis.eq(request.axis)]
    for k in range(len(words)):
        row_word = Array(row[k] for row in words)[offset]
        m.d.comb += vector[k].eq(Mux(axis == Axis.ROW, row_word, Array(words[k])[offset]))


class BlockedBuffer(_MatrixBuffer):
    """A matrix memory in the blocked layout, which answers every request at once: `ready` is always 1.

    The banks of one row are written together, and all banks are read at one address. Each row of banks is therefore
    one memory, P words wide.

    Args:
        side: P, 2 or more.
        blocks: number of P x P blocks that fit.

    Ports:
        request: In(VectorRequest), a row or a column of a block. ready: Out(1), always 1.
        data: Out(P x width), the requested vector, in the next cycle.
        base: In(INDEX_BITS), the first block of the requested matrix; pitch: In(INDEX_BITS), its blocks in a row.
        write_enable: In(1), write_block: In(INDEX_BITS), write_row: In(range(P)), write_data: In(P x width): writes
            that row of a block at the cycle's end. A reader sees it from the next request on.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.ready.eq(1)
        block, words = self._block(m), []
        for i in range(self.side):
            m.submodules[f"banks_{i}"] = banks = Ram(width=self.width * self.side, depth=self.blocks)
            m.d.comb += [
                banks.read_enable.eq(self.request.valid),
                banks.read_address.eq(block),
                banks.write_enable.eq(self.write_enable & (self.write_row == i)),
                banks.write_address.eq(self.write_block),
                banks.write_data.eq(self.write_data),
            ]
            words.append([banks.read_data.word_select(j, self.width) for j in range(self.side)])
        select_vector(m, self.request, words, self.data)
        return m


class PlainBuffer(_MatrixBuffer):
    """A matrix memory in the plain layout: `ready` is 0 while the block of a requested column is read into registers.

    Args:
        side: P, 2 or more.
        blocks: number of P x P blocks that fit.

    Ports:
        request: In(VectorRequest), a row or a column of a block. ready: Out(1), the request is taken in this cycle.
        data: Out(P x width), the requested vector, in the cycle after its request was taken.
        base: In(INDEX_BITS), the first block of the requested matrix; pitch: In(INDEX_BITS), its blocks in a row.
        write_enable: In(1), write_block: In(INDEX_BITS), write_row: In(range(P)), write_data: In(P x width): writes
            that row of a block at the cycle's end. A reader sees it from the next request on.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        side = self.side
        block, request = self._block(m), self.request
        gathered = Signal(data.ArrayLayout(self.width * side, side))  # rows of the gathered block
        there, is_there = Signal(INDEX_BITS), Signal()
        gathering, row = Signal(), Signal(range(side + 1))
        hit = is_there & (there == block)
        column = request.axis == Axis.COLUMN
        m.d.comb += self.ready.eq(~column | (hit & ~gathering))

        words = Ram(width=self.width * side, depth=self.blocks * side)  # P banks with one address
        m.submodules.words = words
        arriving, arriving_row = Signal(), Signal(range(side))
        start = request.valid & column & ~gathering & ~hit
        m.d.sync += [arriving.eq(0), arriving_row.eq(row)]
        with m.If(start):
            m.d.sync += [
                gathering.eq(1),
                is_there.eq(0),
                there.eq(block),
                row.eq(1),
                arriving.eq(1),
                arriving_row.eq(0),
            ]
        with m.If(gathering):
            m.d.sync += [row.eq(row + 1), arriving.eq(row < side)]
            with m.If(row == side):
                m.d.sync += [gathering.eq(0), is_there.eq(1)]
        with m.If(arriving):
            m.d.sync += gathered[arriving_row].eq(words.read_data)
        with m.If(self.write_enable & (self.write_block == there)):
            m.d.sync += is_there.eq(0)

        read_row = Mux(gathering, row, Mux(column, 0, request.offset))
        m.d.comb += [
            words.read_enable.eq(start | (gathering & (row < side)) | (request.valid & ~column)),
            words.read_address.eq(Mux(gathering, there, block) * side + read_row),
            words.write_enable.eq(self.write_enable),
            words.write_address.eq(self.write_block * side + self.write_row),
            words.write_data.eq(self.write_data),
        ]
        offset, from_registers = Signal(range(side)), Signal()
        with m.If(request.valid & self.ready):
            m.d.sync += [offset.eq(request.offset), from_registers.eq(column)]
        held = Array(Cat(gathered[i].word_select(j, self.width) for i in range(side)) for j in range(side))[
            offset
        ]
        m.d.comb += self.data.eq(Mux(from_registers, held, words.read_data))
        return m
