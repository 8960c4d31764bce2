"""Stalls of the plain layout: cycles for which the array waits while it reads A transposed (PPO 3.2.2.2, Fig. 14).

PPO reads the rows of A once, as streams, and counts a cycle for each P elements. The hardware
(`matrix_buffer.PlainBuffer`) reads A by columns: it copies a whole P x P block into registers, in P + 1 cycles, each
time that a column of another block is requested. Its stalls differ from those of PPO as follows:

- whole blocks: a block is always read completely, including its part beyond the matrix;
- read latency: reading a block takes one cycle more than it has rows;
- visits: NS and IS go through the same blocks of A for each column of blocks of B, and read them again each time;
- first block: NS and WS read the first block before the first operand is in the array, where no cycle is counted.

An array with `block_load`, which stands still for those cycles (`compute_unit.plain_banks`), differs from this in two
ways: in IS, too, the first block is read before the first operand; and in float32 NS takes the columns of A for several
blocks of C in turn, so that blocks of C in different rows take different blocks of A, which displace each other.
"""

from placerl.primitives.fpga.gemm.arithmetic import INTEGER, Arithmetic
from placerl.primitives.fpga.gemm.plan import GemmShape, blocks, checked_dataflow


def ppo_stalls(shape: GemmShape, *, side: int) -> int:
    """Return the cycles that PPO states for reading A (a x b) transposed: one per P elements.

    Args:
        side: P, the rows and columns of the array and of a block.
    """
    return blocks(shape.a * shape.b, side)


def block_reads(shape: GemmShape, *, side: int, dataflow: str) -> int:
    """Return how many times a block of A is read into the registers during a product in the plain layout.

    Args:
        shape: the product A (a x b) times B (b x c).
        side: P, the rows and columns of the array and of a block.
        dataflow: "NS", "WS" or "IS": the order in which blocks of A are requested.
    """
    rows, inner, columns = (blocks(size, side) for size in (shape.a, shape.b, shape.c))

    def repeated(visited: int) -> int:
        """Return the reads of so many blocks, visited once per column of B: a single block stays in the registers."""
        return visited * columns if visited > 1 else visited

    match checked_dataflow(dataflow):
        case "NS":  # one row of blocks of A after another
            return rows * repeated(inner)
        case "WS":  # each block once, because it stays in the array
            return rows * inner
        case _:  # IS: all of A
            return repeated(rows * inner)


def plain_stalls(shape: GemmShape, *, side: int, dataflow: str) -> int:
    """Return the cycles for which the array waits while A is read transposed from the plain layout.

    Args:
        shape: the product A (a x b) times B (b x c).
        side: P, the rows and columns of the array and of a block.
        dataflow: "NS", "WS" or "IS": the order in which blocks of A are requested.
    """
    uncounted = 0 if dataflow == "IS" else 1  # the first block's, before the first operand is in the array
    return (block_reads(shape, side=side, dataflow=dataflow) - uncounted) * (side + 1)


def standing_stalls(shape: GemmShape, *, side: int, dataflow: str, arithmetic: Arithmetic = INTEGER) -> int:
    """Return the cycles for which an array with `block_load` stands still while A is read across the plain layout.

    Args:
        shape: the product A (a x b) times B (b x c).
        side: P, the rows and columns of the array and of a block.
        dataflow: "NS", "WS" or "IS": the order in which blocks of A are requested.
        arithmetic: of the array, which says how many blocks of C take turns in NS.
    """
    reads = block_reads(shape, side=side, dataflow=dataflow)
    if dataflow == "NS" and arithmetic.interleaved > 1:
        reads = interleaved_reads(shape, side=side, interleaved=arithmetic.interleaved)
    return (reads - 1) * (side + 1)


def interleaved_reads(shape: GemmShape, *, side: int, interleaved: int) -> int:
    """Return how many times a block of A is read during a product in NS whose blocks of C take turns.

    Args:
        shape: the product A (a x b) times B (b x c).
        side: P, the rows and columns of the array and of a block.
        interleaved: number of blocks of C, in the order of rows, that take turns in a pass.
    """
    rows, inner, columns = (blocks(size, side) for size in (shape.a, shape.b, shape.c))
    reads, held = 0, (-1, -1)
    for first in range(0, rows * columns, interleaved):
        last = min(first + interleaved, rows * columns) - 1
        row, last_row = first // columns, last // columns
        # In one row of C the turns share a block of A; otherwise every vector takes one block after another.
        passing = inner if row == last_row else shape.b * (last_row - row + 1)
        reads += passing - ((row, 0) == held)
        held = last_row, inner - 1
    return reads
