"""Connects the ports of matrix memories: writes or reads a row of a block, and reads a matrix as its transpose."""

from typing import Any

from amaranth.hdl import Module, Mux, Value, ValueLike

from placerl.primitives.fpga.gemm.control import Axis


def write_row(memory: Any, block: ValueLike, row: ValueLike, words: Any) -> list[Any]:
    """Return the statements by which a memory writes P words to a row of a block, whenever its writes are enabled."""
    return [
        memory.write_block.eq(block),
        memory.write_row.eq(row),
        memory.write_data.as_value().eq(words.as_value()),
    ]


def read_row(memory: Any, block: ValueLike, row: ValueLike, base: ValueLike = 0) -> list[Any]:
    """Return the statements by which a `BankedBuffer` reads a row of a block, which is counted from block `base` on."""
    return [
        memory.request.valid.eq(1),
        memory.request.axis.eq(Axis.ROW),
        memory.request.block_row.eq(0),
        memory.request.block_column.eq(block),
        memory.request.offset.eq(row),
        memory.base.eq(base),
        memory.as_blocks.eq(0),
    ]


def transpose_request(m: Module, condition: Value, request: Any, wanted: Any) -> None:
    """Turn a request for a row or a column of a matrix into one for its transpose, if the condition holds.

    Args:
        request: a memory's `VectorRequest`.
        wanted: the `VectorRequest` of the array, for a row or a column of the transpose.
    """
    with m.If(condition):
        m.d.comb += [
            request.axis.eq(Mux(wanted.axis == Axis.ROW, Axis.COLUMN, Axis.ROW)),
            request.block_row.eq(wanted.block_column),
            request.block_column.eq(wanted.block_row),
        ]
