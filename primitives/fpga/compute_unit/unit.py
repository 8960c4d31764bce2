"""A compute unit: the systolic core with memories for A, B and C, which computes C = A B (PPO 3.2, Fig. 3).

A may be read transposed, as the backward pass reads the weights. In the blocked layout this takes no stall, and in
the plain layout one stall per block (`gemm.matrix_buffer`). A core with `block_load` has the blocked layout's banks
next to its elements, for A and B, so that a stationary operand is loaded at once. With A in the plain layout such a
core, the memory of B and that of C stand still while a block of A is copied (`plain_banks`): the baseline without the
blocked layout (PPO 5.3.3). The golden model is `GemmPlan`: C = A B, read back row by row.
"""

from typing import Any

from amaranth.hdl import EnableInserter, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.compute_unit.plain_banks import PlainBanks
from placerl.primitives.fpga.compute_unit.row_ports import transpose_request
from placerl.primitives.fpga.compute_unit.weight_banks import BankedBuffer
from placerl.primitives.fpga.export.platform import ExportPlatform
from placerl.primitives.fpga.gemm.control import INDEX_BITS, Axis, Dataflow, GemmCommand, VectorRequest
from placerl.primitives.fpga.gemm.core import GemmCore
from placerl.primitives.fpga.gemm.matrix_buffer import BlockedBuffer, PlainBuffer
from placerl.primitives.fpga.gemm.result_buffer import ResultBuffer

LAYOUTS = {"blocked": BlockedBuffer, "plain": PlainBuffer}
COUNT_BITS = 32


def compute_unit(
    *, operand_blocks: int = 1024, result_blocks: int = 1024, layout: str = "blocked", **core: Any
) -> "ComputeUnit":
    """Return a `ComputeUnit`, a systolic core with its memories, with a new core.

    Args:
        operand_blocks: P x P blocks in each of the memories of A and B.
        result_blocks: P x P blocks in the memory of C.
        layout: layout of A's memory, `blocked` or `plain`.
        core: arguments of the core, a `GemmCore`, such as `width=16`; `side`, which is P, is required.
    """
    return ComputeUnit(
        core=GemmCore(**core), operand_blocks=operand_blocks, result_blocks=result_blocks, layout=layout
    )


class ComputeUnit(wiring.Component):
    """Computes products: takes rows of A and B, then commands; gives the cycles of each command, and rows of C.

    Args:
        core: the systolic core, not yet elaborated.
        operand_blocks: P x P blocks in each of the memories of A and B.
        result_blocks: P x P blocks in the memory of C.
        layout: layout of A's memory, `blocked` or `plain`. B and C are blocked. With `plain` and `block_load` the unit
            is simulated only: a module that an export writes once for all its uses cannot stand still.

    Ports (all are streams, of which an item is transferred when valid and ready):
        writes: In: the P `words` of row `row` of block `block`, which are stored in the memory of B if `to_b` is 1,
            and in that of A otherwise. With `block_load`, only the words in `mask` are written, and the words in
            `next` go to the next block.
        commands: In: `gemm`, a `GemmCommand`, which has the sizes and the dataflow; `pitch_a`, `pitch_b`: blocks in a
            row of A and B as stored; `transposed_a`: A is stored transposed; `base_a`, `base_b`, `base_c`: the first
            blocks of A, B and C. A command is taken when the core is idle.
        finished: Out: for each command, `cycles` from the first operand in the array to the last sum, and how many of
            them were `stalls`, in which a requested operand was not ready.
        reads: In: a request for row `row` of block `block` of C.
        rows: Out(P x lanes x signed(accumulator_width)): the requested row, a cycle later. A sum has two lanes if the
            core is `configurable`, otherwise one.
    """

    def __init__(self, *, core: GemmCore, operand_blocks: int, result_blocks: int, layout: str = "blocked"):
        if layout not in LAYOUTS:
            raise ValueError(f"layout: found {layout!r}; allowed: {', '.join(LAYOUTS)}")
        self.core, self.layout = core, layout
        self.stands_still = core.block_load and layout == "plain"
        self.operand_blocks, self.result_blocks = operand_blocks, result_blocks
        side = core.side
        write = data.StructLayout(
            {
                "to_b": 1,
                "block": INDEX_BITS,
                "row": range(side),
                "words": data.ArrayLayout(signed(core.width), side),
                **({"mask": side, "next": side} if core.block_load else {}),
            }
        )
        command = data.StructLayout(
            {
                "gemm": GemmCommand,
                "pitch_a": INDEX_BITS,
                "pitch_b": INDEX_BITS,
                "transposed_a": 1,
                "base_a": INDEX_BITS,
                "base_b": INDEX_BITS,
                "base_c": INDEX_BITS,
            }
        )
        super().__init__(
            {
                "writes": In(stream.Signature(write)),
                "commands": In(stream.Signature(command)),
                "finished": Out(
                    stream.Signature(data.StructLayout({"cycles": COUNT_BITS, "stalls": COUNT_BITS}))
                ),
                "reads": In(stream.Signature(data.StructLayout({"block": INDEX_BITS, "row": range(side)}))),
                "rows": Out(stream.Signature(core.signature.members["column_sums"].shape)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        if self.stands_still and isinstance(platform, ExportPlatform):
            raise ValueError("layout: found 'plain'; allowed in an export with block_load: blocked")
        m, core = Module(), self.core
        moves = Signal() if self.stands_still else None
        sizes = {"side": core.side, "width": core.width, "blocks": self.operand_blocks}
        banked = {**sizes, "row_cycles": core.arithmetic.row_cycles}
        kinds_of_a: dict[str, Any] = {"blocked": BankedBuffer, "plain": PlainBanks}
        a = kinds_of_a[self.layout](**banked) if core.block_load else LAYOUTS[self.layout](**sizes)
        b = BankedBuffer(**banked) if core.block_load else BlockedBuffer(**sizes)
        result = ResultBuffer(core=core, blocks=self.result_blocks)
        for name, part in (("core", core), ("a", a), ("b", b), ("result", result)):
            stands = moves is not None and part is not a
            m.submodules[name] = EnableInserter(moves)(part) if stands else part

        writes = self.writes.payload
        m.d.comb += self.writes.ready.eq(1 if moves is None else moves)
        for buffer, chosen in ((a, ~writes.to_b), (b, writes.to_b)):
            m.d.comb += [
                buffer.write_enable.eq(self.writes.valid & chosen),
                buffer.write_block.eq(writes.block),
                buffer.write_row.eq(writes.row),
                buffer.write_data.eq(writes.words),
            ]
            if core.block_load:
                m.d.comb += [buffer.write_mask.eq(writes.mask), buffer.write_next.eq(writes.next)]

        command = Signal.like(self.commands.payload)
        starting = self.commands.valid & self.commands.ready
        running = Signal()
        m.d.comb += [
            self.commands.ready.eq(~running & ~self.finished.valid & core.command.ready),
            core.command.valid.eq(starting),
            core.command.payload.eq(self.commands.payload.gemm),
            result.start.eq(starting),
            result.base.eq(self.commands.payload.base_c),
            result.command.eq(command.gemm),
        ]
        with m.If(starting):
            m.d.sync += [command.eq(self.commands.payload), running.eq(1)]

        m.d.comb += [a.pitch.eq(command.pitch_a), b.pitch.eq(command.pitch_b), b.request.eq(core.b)]
        m.d.comb += [a.request.eq(core.a), a.base.eq(command.base_a), b.base.eq(command.base_b)]
        if core.block_load:
            weights_stay = command.gemm.dataflow == Dataflow.WS
            m.d.comb += [
                a.as_blocks.eq(weights_stay),
                a.flipped.eq(~command.transposed_a),  # the array takes A's blocks by columns
                b.as_blocks.eq(command.gemm.dataflow == Dataflow.IS),
            ]
            for word, of_a, of_b in zip(core.weights, a.weights, b.weights, strict=True):
                m.d.comb += word.eq(Mux(weights_stay, of_a, of_b))
        transpose_request(m, command.transposed_a, a.request, core.a)
        waits = core.a.valid & ~a.ready
        m.d.comb += [
            core.ready.eq(~waits if moves is None else 1),
            core.a_data.eq(a.data),
            core.b_data.eq(b.data),
        ]
        if moves is not None:
            m.d.comb += [moves.eq(~waits), a.moves.eq(moves)]
        m.d.comb += [taken.eq(sums) for taken, sums in zip(result.tile_sums, core.tile_sums, strict=True)]
        for name in ("tile_done", "column_sums", "column_done"):
            m.d.comb += getattr(result, name).eq(getattr(core, name))
        self._count(m, running, starting, waits)

        reads, rows = self.reads, self.rows
        takes = ~rows.valid | rows.ready
        m.d.comb += reads.ready.eq(takes if moves is None else takes & moves)
        reading = reads.valid & reads.ready
        with m.If(reads.ready if moves is None else takes):
            m.d.sync += rows.valid.eq(reads.valid if moves is None else reading)
        wanted = Signal(VectorRequest)
        m.d.comb += [
            wanted.valid.eq(reading),
            wanted.axis.eq(Axis.ROW),
            wanted.block_row.eq(reads.payload.block),
            wanted.offset.eq(reads.payload.row),
            result.request.eq(wanted),
            rows.payload.eq(result.data),
        ]
        return m

    def _count(self, m: Module, running: Signal, starting: Any, waits: Any) -> None:
        """Count cycles from the first operand to the last sum, and the stalls among them."""
        core, finished = self.core, self.finished
        since, entered, stalls = Signal(COUNT_BITS), Signal(), Signal(COUNT_BITS)
        with m.If(core.entering | entered):
            m.d.sync += [entered.eq(1), since.eq(since + 1)]
        with m.If(waits & (core.entering | entered)):
            m.d.sync += stalls.eq(stalls + 1)
        with m.If(core.tile_done.any() | core.column_done.any()):
            m.d.sync += finished.payload.cycles.eq(since)
        with m.If(starting):
            m.d.sync += [since.eq(0), entered.eq(0), stalls.eq(0)]
        with m.If(running & entered & core.idle):
            m.d.sync += [running.eq(0), finished.valid.eq(1), finished.payload.stalls.eq(stalls)]
        with m.If(finished.valid & finished.ready):
            m.d.sync += finished.valid.eq(0)
