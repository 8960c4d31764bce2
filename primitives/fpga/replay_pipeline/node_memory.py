"""A memory for a pipeline that reads, changes and writes a word in every cycle."""

from typing import Any

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.export.ram import Ram

READ_CYCLES = 2
"""Cycles from an address to its word: the memory's own, and a register that takes the word from it."""


class NodeMemory(wiring.Component):
    """A memory of `depth` words of `width` bits, initially 0, whose words are changed in a pipeline.

    A word is read, and may be written `READ_CYCLES` cycles later, when it has arrived. The next two words may be
    requested by then: if they are the same word, they get what is written. So every read sees all writes that were
    requested before it.

    Ports:
        advance (in, 1): the pipeline moves on in this cycle; otherwise nothing changes.
        address (in, log2 depth): the word to read. word (out, `width`): the word, `READ_CYCLES` moves later.
        write (in, 1), write_data (in, `width`): the word that is on `word` becomes this.
        cleared (out, 1), if `clears`: all words are 0; until then nothing may be written.

    Args:
        width, depth: sizes.
        clears: whether all words are cleared after a reset, one per cycle; otherwise they keep what they had.
    """

    def __init__(self, *, width: int, depth: int, clears: bool = False) -> None:
        self.clears = clears
        self._ram = Ram(width=width, depth=depth)
        super().__init__(
            {
                "advance": In(1),
                "address": In(len(self._ram.read_address)),
                "word": Out(width),
                "write": In(1),
                "write_data": In(width),
                **({"cleared": Out(1)} if clears else {}),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.ram = ram = self._ram
        arriving, here = Signal.like(self.address), Signal.like(self.address)
        read, changed = Signal.like(self.word), Signal()
        written, written_address, written_word = Signal(), Signal.like(self.address), Signal.like(self.word)
        m.d.comb += [
            ram.read_enable.eq(self.advance),
            ram.read_address.eq(self.address),
            ram.write_enable.eq(self.advance & self.write),
            ram.write_address.eq(here),
            ram.write_data.eq(self.write_data),
            self.word.eq(Mux(changed, written_word, read)),
        ]
        with m.If(self.advance):
            m.d.sync += [
                arriving.eq(self.address),
                here.eq(arriving),
                # The memory gave the old value of a word that was being written.
                read.eq(Mux(written & (written_address == arriving), written_word, ram.read_data)),
                changed.eq(self.write & (here == arriving)),
                written.eq(self.write),
                written_address.eq(here),
                written_word.eq(self.write_data),
            ]
        if self.clears:
            last = ram.depth - 1
            at = Signal.like(ram.write_address)
            with m.If(~self.cleared):
                m.d.comb += [
                    ram.write_enable.eq(1),
                    ram.write_address.eq(at),
                    ram.write_data.eq(0),
                ]
                m.d.sync += [at.eq(at + 1), self.cleared.eq(at == last)]
        return m
