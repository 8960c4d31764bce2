"""A matrix memory in the plain layout for an array that takes whole blocks and stands still while it waits.

It is the counterpart of `weight_banks.BankedBuffer`: P banks in place of P x P, row-major as in
`matrix_buffer.PlainBuffer`. What is asked for across the rows, a column or a stationary block, is read from registers:
the block of P x P is copied into them first, in P + 1 cycles, unless it is there. An array with `block_load`, such as
one of float32, cannot leave out a vector, so that all of it stands still meanwhile (`moves`), and what it was given
stays. A stationary block moves from the registers to the elements through delay lines, one diagonal per cycle.

The golden models are those of `BankedBuffer`.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, ValueLike, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.gemm.control import INDEX_BITS, Axis, VectorRequest


class PlainBanks(wiring.Component):
    """A matrix memory of P banks, which gives vectors and whole blocks to an array that stands still while it waits.

    Args:
        side: P, 2 or more.
        blocks: number of P x P blocks that fit.
        row_cycles: cycles by which a row of the array works after the row above it, r.

    Ports:
        request: In(VectorRequest), a row or a column of a block. ready: Out(1), the request is taken in this cycle.
        moves: In(1), the array moves in this cycle; 0 while a request is not taken.
        data: Out(P x width), the requested vector, from the cycle after its request until the array has moved on.
        base: In(INDEX_BITS), the first block of the requested matrix; pitch: In(INDEX_BITS), its blocks in a row.
        as_blocks: In(1): a request is for a whole block, given by `block_row` and `block_column`, which is always read
            through the registers.
        flipped: In(1), with `as_blocks`: element (i, j) of the array gets element (j, i) of the block.
        weights: Out(P x P of signed(width)), row by row: word (i, j) of a block is valid when the array has moved
            1 + i r + j times since its request was taken, in that cycle of the array alone.
        write_enable: In(1), write_block: In(INDEX_BITS), write_row: In(range(P)), write_data: In(P x width): writes
            words of a row of a block at the cycle's end.
        write_mask: In(P): the words of `write_data` that are written, each to its column of the row.
        write_next: In(P): the written words that go to the next block instead.
    """

    def __init__(self, *, side: int, width: int, blocks: int, row_cycles: int = 1):
        if side < 2 or width < 1 or blocks < 1:
            raise ValueError(
                f"side, width, blocks: found {side}, {width}, {blocks}; allowed: side 2 or more, others 1 or more"
            )
        self.side, self.width, self.blocks, self.row_cycles = side, width, blocks, row_cycles
        vector = data.ArrayLayout(width, side)
        super().__init__(
            {
                "request": In(VectorRequest),
                "ready": Out(1),
                "moves": In(1),
                "data": Out(vector),
                "as_blocks": In(1),
                "flipped": In(1),
                "weights": Out(signed(width)).array(side * side),
                "base": In(INDEX_BITS),
                "pitch": In(INDEX_BITS),
                "write_enable": In(1),
                "write_block": In(INDEX_BITS),
                "write_row": In(range(side)),
                "write_data": In(vector),
                "write_mask": In(side),
                "write_next": In(side),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        side, request = self.side, self.request
        block, across = Signal(INDEX_BITS), Signal()
        m.d.comb += [
            block.eq(self.base + request.block_row * self.pitch + request.block_column),
            across.eq(self.as_blocks | (request.axis == Axis.COLUMN)),
        ]
        there, is_there = Signal(INDEX_BITS), Signal()
        gathering, row = Signal(), Signal(range(side + 1))
        hit, start, arriving, arriving_row = Signal(), Signal(), Signal(), Signal(range(side))
        m.d.comb += [
            hit.eq(is_there & (there == block)),
            self.ready.eq(~across | (hit & ~gathering)),
            start.eq(request.valid & across & ~gathering & ~hit),
        ]
        m.d.sync += [
            arriving.eq(start | (gathering & (row < side))),
            arriving_row.eq(Mux(start, 0, row)),
        ]
        with m.If(start):
            m.d.sync += [gathering.eq(1), is_there.eq(0), there.eq(block), row.eq(1)]
        with m.If(gathering):
            m.d.sync += row.eq(row + 1)
            with m.If(row == side):
                m.d.sync += [gathering.eq(0), is_there.eq(1)]
        with m.If(self.write_enable & ((self.write_block == there) | (self.write_block + 1 == there))):
            m.d.sync += is_there.eq(0)

        enable, address = Signal(), Signal(range(self.blocks * side))
        m.d.comb += [
            enable.eq(start | (gathering & (row < side)) | (request.valid & ~across)),
            address.eq(
                Mux(gathering, there, block) * side + Mux(gathering, row, Mux(across, 0, request.offset))
            ),
        ]
        words = self._banks(m, enable, address)
        registers = [Signal(self.width * side, name=f"registers_{i}") for i in range(side)]
        for i, register in enumerate(registers):
            with m.If(arriving & (arriving_row == i)):
                m.d.sync += register.eq(words)
        self._give_vector(m, registers, words, across)
        self._give_block(m, registers)
        return m

    def _banks(self, m: Module, enable: ValueLike, address: ValueLike) -> Value:
        """Add the P banks, of which bank j holds column j of every block, and return the P words that they read."""
        found = []
        for j in range(self.side):
            m.submodules[f"bank_{j}"] = bank = Ram(width=self.width, depth=self.blocks * self.side)
            m.d.comb += [
                bank.read_enable.eq(enable),
                bank.read_address.eq(address),
                bank.write_enable.eq(self.write_enable & self.write_mask[j]),
                bank.write_address.eq((self.write_block + self.write_next[j]) * self.side + self.write_row),
                bank.write_data.eq(self.write_data[j]),
            ]
            found.append(bank.read_data)
        return Cat(found)

    def _give_vector(self, m: Module, registers: Sequence[Value], words: Value, across: Value) -> None:
        """Drive `data`: a row as the banks give it, a column as it was in the registers when it was taken."""
        column, from_registers = Signal(self.width * self.side), Signal()
        columns = Array(
            Cat(register.word_select(j, self.width) for register in registers) for j in range(self.side)
        )
        with m.If(self.request.valid & self.ready):
            m.d.sync += [from_registers.eq(across), column.eq(columns[self.request.offset])]
        m.d.comb += self.data.as_value().eq(Mux(from_registers, column, words))

    def _give_block(self, m: Module, registers: Sequence[Value]) -> None:
        """Drive `weights` through delay lines, which move when the array does."""
        for i in range(self.side):
            for j in range(self.side):
                word: Any = Mux(
                    self.flipped,
                    registers[j].word_select(i, self.width),
                    registers[i].word_select(j, self.width),
                )
                for k in range(1 + i * self.row_cycles + j):
                    later = Signal(self.width, name=f"word_{i}_{j}_{k}")
                    with m.If(self.moves):
                        m.d.sync += later.eq(word)
                    word = later
                m.d.comb += self.weights[i * self.side + j].eq(word)
