"""Times a product on a compute unit without computing it: only the core's controller and A's memory are simulated.

The controller decides when every operand enters the array. After the last operand the array takes a constant number
of cycles that depends on its size (`cycles.gemm.fill_cycles`). The cycles are therefore those of the whole unit,
which the tests check, and a simulation runs hundreds of times as fast.

A core with `block_load` and A in the plain layout stands still while a block of A is copied, as the whole unit does
(`compute_unit.plain_banks`).
"""

from amaranth.hdl import EnableInserter, Module, Mux, ResetInserter, Signal, ValueLike
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.gemm.control import Axis, Dataflow, GemmCommand
from placerl.primitives.fpga.gemm.core import GemmCore
from placerl.primitives.fpga.gemm.matrix_buffer import PlainBuffer

COUNT_BITS = 32


class GemmTimer(wiring.Component):
    """Counts the cycles of products, one after another.

    Args:
        block_load: whether stationary blocks are loaded at once, from memories of the elements; otherwise row by row.
        layout: layout of A's memory: `blocked`, which always answers, or `plain`, which stalls for
            columns (`matrix_buffer`), and with `block_load` for blocks.
        float32: whether the core is one of float32, which needs `block_load`.

    Ports:
        commands: In(stream): `gemm`, the product's `GemmCommand`, which has its sizes and dataflow; `transposed_a`: A
            is stored transposed.
        finished: Out(stream): `cycles` from the first operand in the array to the last sum at its edge, and how many
            of them were `stalls`, in which A was requested and not ready.
    """

    def __init__(
        self, *, side: int, block_load: bool = False, layout: str = "blocked", float32: bool = False
    ):
        if layout not in ("blocked", "plain"):
            raise ValueError(f"layout: found {layout!r}; allowed: blocked, plain")
        self.side, self.block_load, self.layout = side, block_load, layout
        self.float32 = float32
        command = data.StructLayout({"gemm": GemmCommand, "transposed_a": 1})
        finished = data.StructLayout({"cycles": COUNT_BITS, "stalls": COUNT_BITS})
        super().__init__(
            {"commands": In(stream.Signature(command)), "finished": Out(stream.Signature(finished))}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        core = GemmCore(side=self.side, block_load=self.block_load, datapath=False, float32=self.float32)
        stands_still, moves = self.block_load and self.layout == "plain", Signal()
        m.submodules.core = EnableInserter(moves)(core) if stands_still else core
        running, entered = Signal(), Signal()
        since, stalls = Signal(COUNT_BITS), Signal(COUNT_BITS)
        command, finished = Signal.like(self.commands.payload), self.finished
        starting = self.commands.valid & self.commands.ready
        waits = self._waits(m, core, command, starting)
        if stands_still:
            m.d.comb += moves.eq(~waits)
        m.d.comb += [
            core.ready.eq(1 if stands_still else ~waits),
            core.command.valid.eq(starting),
            core.command.payload.eq(self.commands.payload.gemm),
            self.commands.ready.eq(~running & ~finished.valid & core.command.ready),
        ]
        # Operands enter in the cycle after their request, and the first stalls are before the first of them.
        with m.If(core.entering | entered):
            m.d.sync += [entered.eq(1), since.eq(since + 1)]
        with m.If(waits & (core.entering | entered)):
            m.d.sync += stalls.eq(stalls + 1)
        with m.If(core.streaming):
            m.d.sync += finished.payload.cycles.eq(since + self._to_edge(core, command))
        with m.If(starting):
            m.d.sync += [command.eq(self.commands.payload), running.eq(1)]
            m.d.sync += [entered.eq(0), since.eq(0), stalls.eq(0)]
        with m.If(running & entered & core.idle):
            m.d.sync += [running.eq(0), finished.valid.eq(1), finished.payload.stalls.eq(stalls)]
        with m.If(finished.valid & finished.ready):
            m.d.sync += finished.valid.eq(0)
        return m

    def _to_edge(self, core: GemmCore, command: Signal) -> ValueLike:
        """Return the cycles from the last vector that enters to its last sum at the edge; in integers 2 P + 2."""
        cycles, total = core.arithmetic.drain_cycles(self.side), core.arithmetic.total_cycles
        return cycles if not total else Mux(command.gemm.dataflow == Dataflow.NS, cycles - total, cycles)

    def _waits(self, m: Module, core: GemmCore, command: Signal, starting: ValueLike) -> Signal:
        """Return a signal: A is requested and its memory is not ready in this cycle."""
        waits = Signal()
        if self.layout == "plain":
            # Words of one bit are enough: what the memory answers does not matter, only when it answers.
            a = PlainBuffer(side=self.side, width=1, blocks=1)
            m.submodules.a = ResetInserter(starting)(a)  # each product has its own A
            m.d.comb += [a.request.eq(core.a), a.pitch.eq(command.gemm.b_blocks)]
            with m.If(command.transposed_a):
                m.d.comb += [
                    a.request.axis.eq(Mux(core.a.axis == Axis.ROW, Axis.COLUMN, Axis.ROW)),
                    a.request.block_row.eq(core.a.block_column),
                    a.request.block_column.eq(core.a.block_row),
                    a.pitch.eq(command.gemm.a_blocks),
                ]
            if self.block_load:  # what stays in the array is copied as a whole
                with m.If(command.gemm.dataflow == Dataflow.WS):
                    m.d.comb += a.request.axis.eq(Axis.COLUMN)
            m.d.comb += waits.eq(core.a.valid & ~a.ready)
        return waits
