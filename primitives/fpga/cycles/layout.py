"""Cycles lost to the plain layout when a matrix is read transposed (PPO 3.2.2.2, Fig. 14).

In PPO the rows of a matrix are read once into streams, size / P cycles for each. The hardware
(`matrix_buffer.PlainBuffer`) reads a P x P block into registers in P + 1 cycles, whenever the registers hold another
block. They differ as follows:

- whole blocks: a block is always read completely, including its part beyond the matrix;
- read latency: reading a block takes one cycle more than it has rows;
- visits: NS and IS use a block of A once for each block of C; if the registers no longer hold it, it is read again;
- first block: NS and WS read the first block before the first operand is in the array, where no cycle is counted.
"""

from collections.abc import Iterable

from placerl.primitives.fpga.gemm.plan import GemmShape, blocks, checked_dataflow


def ppo_stalls(shape: GemmShape, *, side: int) -> int:
    """Return the cycles that PPO states for reading A (a x b) transposed: one per P elements; `side` is P."""
    return blocks(shape.a * shape.b, side)


def _visits(shape: GemmShape, *, side: int, dataflow: str) -> Iterable[tuple[int, int]]:
    """Return the blocks of A, as (row, column), in the order in which the dataflow requests their vectors."""
    rows, inner, columns = (blocks(size, side) for size in (shape.a, shape.b, shape.c))
    match checked_dataflow(dataflow):
        case "NS":
            return ((row, k) for row in range(rows) for _ in range(columns) for k in range(inner))
        case "WS":
            return ((row, k) for row in range(rows) for k in range(inner))
        case _:
            return ((row, k) for _ in range(columns) for k in range(inner) for row in range(rows))


def _gathers(shape: GemmShape, *, side: int, dataflow: str) -> int:
    """Return how often a block is read: whenever another one than that in the registers is requested."""
    gathers, held = 0, None
    for block in _visits(shape, side=side, dataflow=dataflow):
        gathers += block != held
        held = block
    return gathers


def plain_stalls(shape: GemmShape, *, side: int, dataflow: str) -> int:
    """Return the cycles for which the compute unit waits while it reads A transposed from the plain layout.

    Args:
        shape: the product A (a x b) times B (b x c).
        side: P, the rows and columns of the array and of a block.
        dataflow: "NS", "WS" or "IS": the order in which blocks of A are requested.
    """
    return (_gathers(shape, side=side, dataflow=dataflow) - (dataflow != "IS")) * (side + 1)
