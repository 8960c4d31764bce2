"""The memory that stores the core's sums. In its blocked layout no dataflow ever waits for it (PPO 3.2.2)."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.gemm.control import INDEX_BITS, Dataflow, GemmCommand, VectorRequest
from placerl.primitives.fpga.gemm.core import GemmCore
from placerl.primitives.fpga.gemm.matrix_buffer import select_vector
from placerl.primitives.fpga.gemm.systolic_array import delayed

# The write of the first column (or corner); each other one writes after its neighbour.
Target = data.StructLayout({"block": INDEX_BITS, "offset": INDEX_BITS})


class ResultBuffer(wiring.Component):
    """Stores the sums of a product C in P x P banks, in the order in which the core gives them.

    Element (r, c) of C is in bank (r mod P, c mod P). The blocks of C are stored row by row from block `base` on. NS:
    every processing element writes its own bank. WS: column i of the array writes row i of the banks, one bank per
    cycle. IS: column j of the array writes column j of the banks.

    Args:
        core: the core that gives the sums.
        blocks: number of P x P blocks that fit.

    Ports:
        command: In(GemmCommand), sizes and dataflow of the product whose sums arrive.
        start: In(1), base: In(INDEX_BITS): in a cycle before the first sum, the product's first block.
        tile_sums: In(lanes x signed), P x P of them: the sums in the elements (NS). tile_done: In(P * P), which of
            them are finished in this cycle.
        column_sums: In(P x lanes x signed), the sums below the columns (WS, IS). column_done: In(P), which of them are
            finished in this cycle.
        request: In(VectorRequest), a row or a column of block `block_row`; data: Out(P x lanes x signed), the
            requested vector, a cycle later.
    """

    def __init__(self, *, core: GemmCore, blocks: int):
        self.side, self.blocks, self.row_cycles = core.side, blocks, core.arithmetic.row_cycles
        sums = core.signature.members["column_sums"].shape
        self._word = sums.elem_shape
        super().__init__(
            {
                "command": In(GemmCommand),
                "start": In(1),
                "base": In(INDEX_BITS),
                "tile_sums": In(sums.elem_shape).array(self.side * self.side),
                "tile_done": In(self.side * self.side),
                "column_sums": In(sums),
                "column_done": In(self.side),
                "request": In(VectorRequest),
                "data": Out(sums),
            }
        )

    def _targets(self, m: Module) -> list[Any]:
        """Return the address of the first corner or column, and this address delayed by one cycle, two cycles,
        ...
        """
        command, target = self.command, Signal(Target)
        vector, first_block = Signal(INDEX_BITS), Signal(INDEX_BITS)
        tiles = command.dataflow == Dataflow.NS
        step = Mux(command.dataflow == Dataflow.WS, 1, command.c_blocks)  # from block to block of a pass
        pass_step = Mux(command.dataflow == Dataflow.WS, command.c_blocks, 1)
        with m.If(Mux(tiles, self.tile_done[0], self.column_done[0])):
            with m.If(tiles):
                m.d.sync += target.block.eq(target.block + 1)
            with m.Elif(vector == command.vectors - 1):
                after = first_block + pass_step
                m.d.sync += [vector.eq(0), first_block.eq(after), target.block.eq(after), target.offset.eq(0)]
            with m.Else():
                m.d.sync += vector.eq(vector + 1)
                with m.If(target.offset == self.side - 1):
                    m.d.sync += [target.offset.eq(0), target.block.eq(target.block + step)]
                with m.Else():
                    m.d.sync += target.offset.eq(target.offset + 1)
        with m.If(self.start):
            m.d.sync += [
                vector.eq(0),
                first_block.eq(self.base),
                target.block.eq(self.base),
                target.offset.eq(0),
            ]
        targets = [target]
        for _ in range((self.side - 1) * (self.row_cycles + 1)):
            targets.append(delayed(m, targets[-1], 1))
        return targets

    def elaborate(self, platform: object) -> Module:
        m = Module()
        side = self.side
        targets = self._targets(m)
        words: list[list[Any]] = [[] for _ in range(side)]
        for i in range(side):
            for j in range(side):
                m.submodules[f"bank_{i}_{j}"] = bank = Ram(width=self._word.size, depth=self.blocks)
                words[i].append(bank.read_data)
                m.d.comb += [
                    bank.read_enable.eq(self.request.valid),
                    bank.read_address.eq(self.request.block_row),
                ]
                element = i * side + j
                with m.Switch(self.command.dataflow):
                    with m.Case(Dataflow.NS):
                        enable, target, word = (
                            self.tile_done[element],
                            targets[i * self.row_cycles + j],
                            self.tile_sums[element],
                        )
                        m.d.comb += self._write(bank, enable, target, word)
                    with m.Case(Dataflow.WS):
                        enable, target = self.column_done[i] & (targets[i].offset == j), targets[i]
                        m.d.comb += self._write(bank, enable, target, self.column_sums[i])
                    with m.Case(Dataflow.IS):
                        enable, target = self.column_done[j] & (targets[j].offset == i), targets[j]
                        m.d.comb += self._write(bank, enable, target, self.column_sums[j])
        select_vector(m, self.request, words, [word.as_value() for word in self.data])
        return m

    def _write(self, bank: Any, enable: Any, target: Any, word: Any) -> list[Any]:
        return [
            bank.write_enable.eq(enable),
            bank.write_address.eq(target.block),
            bank.write_data.eq(word.as_value()),
        ]
