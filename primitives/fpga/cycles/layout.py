"""Cycles lost to the plain layout when a matrix is read across it (PPO 3.2.2.2, Fig. 14).

PPO: the rows of a matrix are read once into streams, size / P cycles for each. The RTL (`matrix_buffer.PlainBuffer`)
holds one block: it gathers a block, P + 1 cycles, whenever the wanted one is not there. Where the two differ:

- read latency: a gather takes a cycle more than the block has rows;
- visits: NS and IS return to a block of A for each block of C that needs it, and gather it again;
- first block: NS and WS gather the first one before the first operand is in the array, where no cycle is counted;
- one block: what is asked for twice in a row is there.
"""

from collections.abc import Iterable

from primitives.fpga.gemm_plan import GemmShape, blocks, checked_dataflow


def ppo_stalls(shape: GemmShape, *, side: int) -> int:
    """Cycles that PPO states for reading A (a x b) across its layout: one for every P elements."""
    return blocks(shape.a * shape.b, side)


def _visits(shape: GemmShape, *, side: int, dataflow: str) -> Iterable[tuple[int, int]]:
    """The blocks of A, as (row, column), in the order in which the dataflow asks for their vectors."""
    rows, inner, columns = (blocks(size, side) for size in (shape.a, shape.b, shape.c))
    match checked_dataflow(dataflow):
        case "NS":
            return ((row, k) for row in range(rows) for _ in range(columns) for k in range(inner))
        case "WS":
            return ((row, k) for row in range(rows) for k in range(inner))
        case _:
            return ((row, k) for _ in range(columns) for k in range(inner) for row in range(rows))


def plain_stalls(shape: GemmShape, *, side: int, dataflow: str) -> int:
    """Stalls of the compute unit when its dataflow reads A across the plain layout."""
    gathers, held = 0, None
    for block in _visits(shape, side=side, dataflow=dataflow):
        gathers += block != held
        held = block
    return (gathers - (dataflow != "IS")) * (side + 1)
