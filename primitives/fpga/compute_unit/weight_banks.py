"""A matrix memory in the blocked layout, in which every bank has its own address.

Element (r, c) of a matrix is in bank (r mod P, c mod P), as in `matrix_buffer.BlockedBuffer`, where the banks of a
row share one address. With P x P addresses the memory can do two things more:

- It gives a whole stationary block to the array at once, as `GemmCore` with `block_load` needs it (PPO 3.2.2.2,
  Fig. 6). The block's address moves through the banks as vectors move through the array, one diagonal per cycle.
- It writes a row that begins at any column, as `LayoutTransform` produces it.

Golden models: NumPy's indexing for vectors, the tests' `WeightWave` for blocks.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.gemm.control import INDEX_BITS, VectorRequest
from placerl.primitives.fpga.gemm.matrix_buffer import select_vector
from placerl.primitives.fpga.gemm.systolic_array import delayed


class BankedBuffer(wiring.Component):
    """A matrix memory of P x P banks with separate addresses, which also gives whole blocks to the array.

    Args:
        side: P, 2 or more.
        blocks: number of P x P blocks that fit, which is the number of words of a bank.
        row_cycles: cycles by which a row of the array works after the row above it, r.

    Ports:
        request: In(VectorRequest), a row or a column of a block. ready: Out(1), always 1.
        data: Out(P x width), the requested vector, in the next cycle.
        base: In(INDEX_BITS), the first block of the requested matrix; pitch: In(INDEX_BITS), its blocks in a row.
        write_enable: In(1), write_block: In(INDEX_BITS), write_row: In(range(P)), write_data: In(P x width): writes
            words of a row of a block at the cycle's end.
        as_blocks: In(1): a request is for a whole block, given by `block_row` and `block_column`; constant while
            blocks are in transit.
        flipped: In(1), with `as_blocks`: element (i, j) of the array gets element (j, i) of the block.
        weights: Out(P x P of signed(width)), row by row: word (i, j) of a block is valid from 1 + i r + j cycles after
            its request until that of the next block.
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
        wanted = Signal(data.StructLayout({"valid": 1, "block": INDEX_BITS}))
        m.d.comb += [
            self.ready.eq(1),
            wanted.valid.eq(request.valid),
            wanted.block.eq(self.base + request.block_row * self.pitch + request.block_column),
        ]
        # The address of each diagonal: the vector's, or that of the block that has reached it.
        steps = (side - 1) * (self.row_cycles + 1)
        wave: list[Any] = [wanted]
        for _ in range(steps):
            wave.append(delayed(m, wave[-1], 1))
        addresses = [Signal.like(wanted, name=f"address_{k}") for k in range(steps + 1)]
        m.d.comb += [
            address.eq(Mux(self.as_blocks, step, wanted))
            for address, step in zip(addresses, wave, strict=True)
        ]
        write_blocks = [Signal(INDEX_BITS, name=f"write_block_{j}") for j in range(side)]
        m.d.comb += [block.eq(self.write_block + self.write_next[j]) for j, block in enumerate(write_blocks)]
        banks = [[Ram(width=self.width, depth=self.blocks) for _ in range(side)] for _ in range(side)]
        for i, row in enumerate(banks):
            for j, bank in enumerate(row):
                m.submodules[f"bank_{i}_{j}"] = bank
                address: Any = addresses[i * self.row_cycles + j]
                if self.row_cycles > 1:  # flipped, the bank feeds element (j, i)
                    address = data.View(
                        wanted.shape(),
                        Mux(
                            self.flipped,
                            addresses[j * self.row_cycles + i].as_value(),
                            address.as_value(),
                        ),
                    )
                m.d.comb += [
                    bank.read_enable.eq(address.valid),
                    bank.read_address.eq(address.block),
                    bank.write_enable.eq(self.write_enable & (self.write_row == i) & self.write_mask[j]),
                    bank.write_address.eq(write_blocks[j]),
                    bank.write_data.eq(self.write_data[j]),
                    self.weights[i * side + j].eq(Mux(self.flipped, banks[j][i].read_data, bank.read_data)),
                ]
        select_vector(m, request, [[bank.read_data for bank in row] for row in banks], self.data)
        return m
