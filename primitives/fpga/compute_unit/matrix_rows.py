"""Moves matrices to and from a simulated unit's memories: one row of a block at a time, as its ports take and give it.

A memory holds a matrix in blocks of P x P, one row of blocks after another, from a given block on. The blocks in a row
are its pitch.
"""

from typing import Any

import numpy as np

from placerl.primitives.fpga.gemm.core import GemmCore
from placerl.primitives.fpga.gemm.plan import Integers, blocks
from placerl.primitives.fpga.simulation.base import Simulation


def row_places(rows: int, pitch: int, *, side: int, base: int = 0) -> dict[str, Integers]:
    """Return where a matrix's rows are stored: arrays `block` and `row`, (rows x pitch,), by row and then by column.

    Args:
        rows: rows of the matrix.
        pitch: blocks in a row of the matrix.
        side: P, rows and columns of a block.
        base: number of the block at which the matrix begins.
    """
    row, column = np.divmod(np.arange(rows * pitch), pitch)
    return {"block": base + row // side * pitch + column, "row": row % side}


def row_writes(matrix: Integers, core: GemmCore, *, to_b: bool, base: int = 0) -> dict[str, Any]:
    """Return the items for a unit's port `writes` that store a matrix.

    Args:
        matrix: a matrix of whole blocks, as `plan.padded` returns it.
        core: the unit's core.
        to_b: whether it goes to the memory of B; otherwise to that of A.
        base: number of the block at which the matrix begins.

    Returns:
        An array for each field of the port, such as `block`, `row` and `words`, with an entry for each row of a block.
    """
    side = core.side
    count = matrix.size // side
    writes: dict[str, Any] = {
        "to_b": np.full(count, int(to_b)),
        **row_places(len(matrix), matrix.shape[1] // side, side=side, base=base),
        "words": matrix.reshape(count, side),
    }
    if core.block_load:  # whole rows of one block
        writes |= {"mask": np.full(count, (1 << side) - 1), "next": np.zeros(count, np.int64)}
    return writes


def read_back(
    simulated: Simulation,
    rows: int,
    columns: int,
    core: GemmCore,
    base: int = 0,
    ports: tuple[str, str] = ("reads", "rows"),
) -> Integers:
    """Read a product from a unit's memory and return its sums, (rows, columns, lanes) int64.

    Args:
        simulated: the simulation of the unit.
        rows, columns: sizes of the product in words.
        core: the unit's core.
        base: number of the block at which the product begins.
        ports: names of the ports for requests of rows, and for the rows.
    """
    requests, answers = ports
    pitch = blocks(columns, core.side)
    places = row_places(rows, pitch, side=core.side, base=base)
    sums = simulated.run({requests: places}, {answers: rows * pitch}).outputs[answers]
    return sums.reshape(rows, pitch * core.side, core.lanes)[:, :columns]
