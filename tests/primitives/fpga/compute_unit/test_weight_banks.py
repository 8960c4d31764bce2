"""The memories beside the elements: the wave of words that the core is tested with, rows from any word on."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.primitives.fpga.compute_unit.weight_banks import BankedBuffer
from placerl.primitives.fpga.gemm.control import Axis
from tests.primitives.fpga.gemm.simulation import WeightWave

ROWS, COLUMNS = 2, 3


@pytest.mark.parametrize("flipped", [False, True])
@settings(max_examples=5, deadline=None)
@given(side=st.integers(2, 4), seed=st.integers(0, 2**32))
def test_words_come_as_the_array_wants_them(flipped: bool, side: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks = rng.integers(-128, 128, (ROWS, COLUMNS, side, side))
    banks = BankedBuffer(side=side, width=8, blocks=ROWS * COLUMNS + 1)
    golden = WeightWave(side)
    # In some cycles a block, in others none.
    asked = [(rng.integers(ROWS), rng.integers(COLUMNS)) if rng.random() < 0.6 else None for _ in range(20)]

    async def drive(ctx: Any) -> None:
        ctx.set(banks.base, 1)
        ctx.set(banks.pitch, COLUMNS)
        ctx.set(banks.flipped, int(flipped))
        ctx.set(banks.as_blocks, 1)
        ctx.set(banks.write_mask, (1 << side) - 1)
        ctx.set(banks.write_enable, 1)
        for (row, column, place), words in zip(
            np.ndindex(ROWS, COLUMNS, side), blocks.reshape(-1, side), strict=True
        ):
            ctx.set(banks.write_block, 1 + row * COLUMNS + column)
            ctx.set(banks.write_row, place)
            ctx.set(banks.write_data, words.tolist())
            await ctx.tick()
        ctx.set(banks.write_enable, 0)
        due: list[Any] = [None] * (2 * side - 1)  # whether a word is due on each diagonal
        for request in asked:
            fields = (
                {} if request is None else {"block_row": int(request[0]), "block_column": int(request[1])}
            )
            ctx.set(banks.request, {"valid": int(request is not None), **fields})
            await ctx.tick()
            due = [request, *due[:-1]]
            block = None if request is None else blocks[request]
            wanted = golden.after(block.T if flipped and block is not None else block)
            found = [ctx.get(word) for word in banks.weights]
            for i, j in np.ndindex(side, side):
                if due[i + j] is not None:
                    assert found[i * side + j] == wanted[i * side + j]

    simulator = Simulator(banks)
    simulator.add_clock(1e-8)
    simulator.add_testbench(drive)
    simulator.run()


@settings(max_examples=5, deadline=None)
@given(side=st.integers(2, 4), seed=st.integers(0, 2**32))
def test_rows_are_written_from_any_word_on(side: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = np.zeros((side, 3 * side), np.int64)
    banks = BankedBuffer(side=side, width=8, blocks=3)
    found: list[list[int]] = []

    async def drive(ctx: Any) -> None:
        ctx.set(banks.pitch, 3)
        ctx.set(banks.write_enable, 1)
        for _ in range(10):
            row, column, count = rng.integers(side), rng.integers(2 * side), rng.integers(1, side + 1)
            words = rng.integers(0, 256, count)
            matrix[row, column : column + count] = words
            block, offset = divmod(int(column), side)
            turned, mask, following = [0] * side, 0, 0
            for k, word in enumerate(words.tolist()):
                place = (offset + k) % side
                turned[place], mask = word, mask | 1 << place
                following |= (place < offset) << place
            ctx.set(banks.write_block, block)
            ctx.set(banks.write_row, int(row))
            ctx.set(banks.write_data, turned)
            ctx.set(banks.write_mask, mask)
            ctx.set(banks.write_next, following)
            await ctx.tick()
        ctx.set(banks.write_enable, 0)
        for row, block in np.ndindex(side, 3):
            ctx.set(banks.request, {"valid": 1, "axis": Axis.ROW, "block_column": block, "offset": row})
            await ctx.tick()
            found.append(list(ctx.get(banks.data)))

    simulator = Simulator(banks)
    simulator.add_clock(1e-8)
    simulator.add_testbench(drive)
    simulator.run()
    np.testing.assert_array_equal(np.array(found).reshape(side, 3 * side), matrix)
