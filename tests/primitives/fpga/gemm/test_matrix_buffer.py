"""Blocked and plain matrix memories: every row and column of every block, and the cycles that they wait for one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from placerl.primitives.fpga.compute_unit.weight_banks import BankedBuffer
from placerl.primitives.fpga.gemm.control import Axis
from placerl.primitives.fpga.gemm.matrix_buffer import BlockedBuffer, PlainBuffer

Request = tuple[Axis, int, int, int]


def read(
    buffer: BlockedBuffer | BankedBuffer | PlainBuffer,
    matrix: NDArray[np.int64],
    requests: Sequence[Request],
    base: int,
) -> tuple[list[list[int]], list[int]]:
    """Writes a matrix of whole blocks and asks for vectors as fast as they go: (vectors, cycles that each waited)."""
    side = buffer.side
    pitch = matrix.shape[1] // side
    vectors: list[list[int]] = []
    waits: list[int] = []

    async def drive(ctx: Any) -> None:
        ctx.set(buffer.base, base)
        ctx.set(buffer.pitch, pitch)
        ctx.set(buffer.write_enable, 1)
        if isinstance(buffer, BankedBuffer):
            ctx.set(buffer.write_mask, (1 << side) - 1)
        for row, words in enumerate(matrix):
            for column in range(pitch):
                ctx.set(buffer.write_block, base + row // side * pitch + column)
                ctx.set(buffer.write_row, row % side)
                ctx.set(buffer.write_data, words[column * side : (column + 1) * side].tolist())
                await ctx.tick()
        ctx.set(buffer.write_enable, 0)
        for axis, block_row, block_column, offset in requests:
            fields = {"valid": 1, "axis": axis, "block_row": block_row, "block_column": block_column}
            ctx.set(buffer.request, {**fields, "offset": offset})
            wait = 0
            while not ctx.get(buffer.ready):
                await ctx.tick()
                wait += 1
                assert wait <= 2 * side
            await ctx.tick()
            vectors.append(list(ctx.get(buffer.data)))
            waits.append(wait)

    simulator = Simulator(buffer)
    simulator.add_clock(1e-8)
    simulator.add_testbench(drive)
    simulator.run()
    return vectors, waits


def golden(matrix: NDArray[np.int64], side: int, request: Request) -> list[int]:
    axis, block_row, block_column, offset = request
    block = matrix[block_row * side :, block_column * side :][:side, :side]
    return (block[offset] if axis == Axis.ROW else block[:, offset]).tolist()


@settings(max_examples=8, deadline=None)
@given(side=st.integers(2, 4), rows=st.integers(1, 3), columns=st.integers(1, 3), seed=st.integers(0, 2**32))
@pytest.mark.parametrize("layout", [BlockedBuffer, BankedBuffer, PlainBuffer])
def test_any_order_of_rows_and_columns(layout: type, side: int, rows: int, columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, 256, (rows * side, columns * side))
    axes, limits = (Axis.ROW, Axis.COLUMN), (rows, columns, side)
    requests = [(axes[rng.integers(2)], *(int(rng.integers(n)) for n in limits)) for _ in range(30)]
    buffer = layout(side=side, width=8, blocks=rows * columns + 2)
    vectors, waits = read(buffer, matrix, requests, base=2)
    assert vectors == [golden(matrix, side, request) for request in requests]
    held = None
    for (axis, *block, _), wait in zip(requests, waits, strict=True):
        gathers = layout is PlainBuffer and axis == Axis.COLUMN and block != held
        assert wait == (side + 1 if gathers else 0)
        held = block if gathers else held


def test_a_gathered_block_that_is_written_is_gathered_again() -> None:
    buffer = PlainBuffer(side=2, width=8, blocks=1)

    async def drive(ctx: Any) -> None:
        async def write(row: int, words: list[int]) -> None:
            ctx.set(buffer.write_enable, 1)
            ctx.set(buffer.write_row, row)
            ctx.set(buffer.write_data, words)
            await ctx.tick()
            ctx.set(buffer.write_enable, 0)

        async def column(offset: int) -> list[int]:
            ctx.set(buffer.request, {"valid": 1, "axis": Axis.COLUMN, "offset": offset})
            for _ in range(10):
                taken = ctx.get(buffer.ready)
                await ctx.tick()
                if taken:
                    break
            ctx.set(buffer.request, {"valid": 0})
            return list(ctx.get(buffer.data))

        ctx.set(buffer.pitch, 1)
        await write(0, [1, 2])
        await write(1, [3, 4])
        assert await column(0) == [1, 3]
        await write(1, [5, 6])
        assert await column(1) == [2, 6]

    simulator = Simulator(buffer)
    simulator.add_clock(1e-8)
    simulator.add_testbench(drive)
    simulator.run()
