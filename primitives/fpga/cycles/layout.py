"""Cycles lost to the plain layout when a matrix is read across it (PPO 3.2.2.2, Fig. 14).

PPO: the rows of a matrix are read once into streams, size / P cycles for each. The RTL (`matrix_buffer.PlainBuffer`)
holds one block: it gathers a block, P + 1 cycles, whenever the wanted one is not there. Where the two differ:

- whole blocks: a block is gathered whole, its part beyond the matrix, too;
- read latency: a gather takes a cycle more than the block has rows;
- visits: NS and IS return to a block of A for each block of C that needs it; unless it is the one there, it is
  gathered again;
- first block: NS and WS gather the first one before the first operand is in the array, where no cycle is counted;
"""

from collections.abc import Iterable

from primitives.fpga.gemm.plan import GemmShape, blocks, checked_dataflow


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


def _gathers(shape: GemmShape, *, side: int, dataflow: str) -> int:
    gathers, held = 0, None
    for block in _visits(shape, side=side, dataflow=dataflow):
        gathers += block != held
        held = block
    return gathers


def plain_stalls(shape: GemmShape, *, side: int, dataflow: str) -> int:
    """Stalls of the compute unit when its dataflow reads A across the plain layout."""
    return (_gathers(shape, side=side, dataflow=dataflow) - (dataflow != "IS")) * (side + 1)


def difference_terms(shape: GemmShape, *, side: int, dataflow: str) -> dict[str, int]:
    """Stalls of the compute unit beyond PPO's by reason; they add up to the difference."""
    covering = blocks(shape.a, side) * blocks(shape.b, side)
    gathers = _gathers(shape, side=side, dataflow=dataflow)
    return {
        "whole blocks": covering * side - ppo_stalls(shape, side=side),
        "visits": (gathers - covering) * side,
        "read latency": gathers,
        "first block": -(side + 1) if dataflow != "IS" else 0,
    }
