"""Memories beside the elements of the array: a stationary block comes in at once (PPO 3.2.2.2, Fig. 6).

The blocked layout has a bank for each element of a block, so a bank for each element of the array: what `GemmCore` with
`block_load` wants. The address of a block moves through the banks as the vectors move through the array, a diagonal a
cycle. The golden model is `gemm_simulation.WeightWave`.
"""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from primitives.fpga.gemm_control import INDEX_BITS, VectorRequest
from primitives.fpga.ram import Ram
from primitives.fpga.systolic_array import delayed


class WeightBanks(wiring.Component):
    """P x P banks of `blocks` words; element (r, c) of a block lies in bank (r, c). A block a cycle.

    Args:
        side: P, 2 or more. width: bits of a word. blocks: how many blocks of P x P fit.

    Ports:
        request: In(VectorRequest), of which `valid`, `block_row` and `block_column` count.
        flipped: In(1), with the request: element (i, j) of the array gets element (j, i) of the block (WS, or IS of a
            matrix that is stored transposed); constant while blocks are under way.
        weights: Out(P x P x signed(width)), row by row: word (i, j) is there 1 + i + j cycles after the request, until
            that of the next.
        base, pitch, write_enable, write_block, write_row, write_data: as the buffers of `matrix_buffer`.
    """

    def __init__(self, *, side: int, width: int, blocks: int):
        if side < 2 or width < 1 or blocks < 1:
            raise ValueError(
                f"side, width, blocks: found {side}, {width}, {blocks}; allowed: side 2 or more, others 1 or more"
            )
        self.side, self.width, self.blocks = side, width, blocks
        super().__init__(
            {
                "request": In(VectorRequest),
                "flipped": In(1),
                "weights": Out(data.ArrayLayout(signed(width), side * side)),
                "base": In(INDEX_BITS),
                "pitch": In(INDEX_BITS),
                "write_enable": In(1),
                "write_block": In(INDEX_BITS),
                "write_row": In(range(side)),
                "write_data": In(data.ArrayLayout(signed(width), side)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        side, request = self.side, self.request
        wanted = Signal(data.StructLayout({"valid": 1, "block": INDEX_BITS}))
        m.d.comb += [
            wanted.valid.eq(request.valid),
            wanted.block.eq(self.base + request.block_row * self.pitch + request.block_column),
        ]
        wave = [wanted]
        for _ in range(2 * side - 2):
            wave.append(delayed(m, wave[-1], 1))
        banks = [[Ram(width=self.width, depth=self.blocks) for _ in range(side)] for _ in range(side)]
        for i, row in enumerate(banks):
            for j, bank in enumerate(row):
                m.submodules[f"bank_{i}_{j}"] = bank
                m.d.comb += [
                    bank.read_enable.eq(wave[i + j].valid),
                    bank.read_address.eq(wave[i + j].block),
                    bank.write_enable.eq(self.write_enable & (self.write_row == i)),
                    bank.write_address.eq(self.write_block),
                    bank.write_data.eq(self.write_data[j]),
                    self.weights[i * side + j].eq(Mux(self.flipped, banks[j][i].read_data, bank.read_data)),
                ]
        return m
