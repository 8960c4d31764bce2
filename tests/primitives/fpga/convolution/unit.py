"""A compute unit with the layout transformation module, for convolutions (PPO 3.2, Fig. 3).

A convolution is computed as products of bands: a band is a number of rows of the Toeplitz matrix. The layout
transformation module fills one part of A's memory with the next band while the core works on another part
(PPO 3.2.1). Golden models: the convolution itself; for the cycles, `band_times` of `cycles`.
"""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In
from amaranth.utils import exact_log2

from placerl.primitives.fpga.compute_unit.unit import ComputeUnit
from placerl.primitives.fpga.convolution.layout_transform import LayoutTransform, WindowCommand
from placerl.primitives.fpga.gemm.control import INDEX_BITS
from tests.primitives.fpga.convolution.tensor_memory import TensorMemory

BANDS = 2  # parts of A's memory that may be filled or in use


class ConvolutionUnit(wiring.Component):
    """Computes convolutions: takes the images, the kernels and commands; gives the results and the cycles.

    Args:
        unit: a unit whose core has `block_load` and whose P is a power of two; not yet elaborated.
        tensor_lines: capacity of the tensor's memory, in multiples of P words.

    Ports (all are streams):
        tensor: In: P `words` of the tensor of all images, from word P x `line` on.
        writes: In: rows of blocks of B (the kernels) for the unit's memory, as `ComputeUnit.writes`.
        transforms: In: a band to transform: its `WindowCommand`, `windows`, and the first block, `base`, and blocks in
            a row, `pitch`, of its part of A's memory. Taken when fewer than `BANDS` parts are filled or in use.
        commands: In: `unit`, a command of `ComputeUnit`. With `transformed`, the product waits for the next unused
            band, and releases the band's part of the memory at its end.
        finished: Out: `cycles` and `stalls` of each product.
        reads: In: requests for rows of C; rows: Out: the requested rows, a cycle later.
    """

    def __init__(self, *, unit: ComputeUnit, tensor_lines: int):
        core = unit.core
        if not core.block_load or core.side & (core.side - 1):
            raise ValueError("unit: allowed: a core with block_load, of which the side is a power of two")
        self.unit, self.side = unit, core.side
        self.memory = TensorMemory(lanes=core.side, width=core.width, lines=tensor_lines)
        ports = unit.signature.members
        command = data.StructLayout({"unit": unit.commands.payload.shape(), "transformed": 1})
        words = data.ArrayLayout(core.width, core.side)
        super().__init__(
            {
                "tensor": In(
                    stream.Signature(data.StructLayout({"line": range(tensor_lines), "words": words}))
                ),
                "transforms": In(
                    stream.Signature(
                        data.StructLayout({"windows": WindowCommand, "base": INDEX_BITS, "pitch": INDEX_BITS})
                    )
                ),
                "writes": ports["writes"],
                "commands": In(stream.Signature(command)),
                **{name: ports[name] for name in ("finished", "reads", "rows")},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.unit = unit = self.unit
        m.submodules.memory = memory = self.memory
        m.submodules.transform = transform = LayoutTransform(lanes=self.side)
        m.d.comb += [
            self.tensor.ready.eq(1),
            memory.write_enable.eq(self.tensor.valid),
            memory.line.eq(self.tensor.payload.line),
            memory.written.eq(self.tensor.payload.words),
        ]
        for name in ("finished", "reads", "rows"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(unit, name))
        filled = self._move(m, transform)

        # Parts of A's memory: `held` are filled, being filled or in use; `waiting` of them are filled and unused.
        held, waiting, in_use = Signal(range(BANDS + 1)), Signal(range(BANDS + 1)), Signal()
        begins, starts, ends = Signal(), Signal(), Signal()
        m.d.comb += [
            transform.commands.payload.eq(self.transforms.payload.windows),
            transform.commands.valid.eq(self.transforms.valid & (held != BANDS)),
            self.transforms.ready.eq(transform.commands.ready & (held != BANDS)),
            begins.eq(self.transforms.valid & self.transforms.ready),
        ]
        free = ~self.commands.payload.transformed | (waiting != 0)
        m.d.comb += [
            unit.commands.payload.eq(self.commands.payload.unit),
            unit.commands.valid.eq(self.commands.valid & free),
            self.commands.ready.eq(unit.commands.ready & free),
            starts.eq(self.commands.valid & self.commands.ready & self.commands.payload.transformed),
            ends.eq(in_use & unit.finished.valid & unit.finished.ready),
        ]
        m.d.sync += [held.eq(held + begins - ends), waiting.eq(waiting + filled - starts)]
        with m.If(starts | ends):
            m.d.sync += in_use.eq(starts)
        return m

    def _move(self, m: Module, transform: LayoutTransform) -> Any:
        """Move each item from the tensor to A's memory in two cycles; returns 1 in the cycle of a band's last
        write.
        """
        unit, memory, side = self.unit, self.memory, self.side
        bits = exact_log2(side)
        base, pitch = Signal(INDEX_BITS), Signal(INDEX_BITS)
        with m.If(self.transforms.valid & self.transforms.ready):
            m.d.sync += [base.eq(self.transforms.payload.base), pitch.eq(self.transforms.payload.pitch)]
        move, moving = Signal.like(transform.moves.payload), Signal()
        m.d.comb += [
            transform.moves.ready.eq(1),
            memory.read_enable.eq(transform.moves.valid),
            memory.address.eq(transform.moves.payload.source[: len(memory.address)]),
        ]
        m.d.sync += [move.eq(transform.moves.payload), moving.eq(transform.moves.valid)]

        offset, words = move.column[:bits], []
        for k in range(side):
            word = Signal(signed(self.unit.core.width), name=f"word_{k}")
            m.d.comb += word.eq(Mux((move.low <= k) & (move.high > k), memory.words[k], 0))
            words.append(word)
        m.d.comb += self.writes.ready.eq(~moving)
        with m.If(moving):
            written = unit.writes.payload
            m.d.comb += [
                unit.writes.valid.eq(1),
                written.to_b.eq(0),
                written.block.eq(base + (move.row >> bits) * pitch + (move.column >> bits)),
                written.row.eq(move.row[:bits]),
            ]
            for j in range(side):
                lane = Signal(bits, name=f"lane_{j}")
                m.d.comb += [
                    lane.eq(j - offset),
                    written.words[j].eq(Array(words)[lane]),
                    written.mask[j].eq(lane < move.count),
                    written.next[j].eq(j < offset),
                ]
        with m.Else():
            m.d.comb += [unit.writes.valid.eq(self.writes.valid), unit.writes.payload.eq(self.writes.payload)]
        return moving & move.last
