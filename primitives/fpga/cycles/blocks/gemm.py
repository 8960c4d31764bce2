"""The compute unit that multiplies matrices, timed by its controller and A's memory alone (`gemm.timer`)."""

from collections.abc import Callable, Sequence
from typing import Any

from placerl.primitives.fpga.cycles.timed_block import TimedBlock
from placerl.primitives.fpga.gemm.plan import GemmShape, command_fields
from placerl.primitives.fpga.simulation.ports import columns


def build(side: int, block_load: bool, layout: str) -> Any:
    """Return the timer of a unit.

    Args:
        block_load: whether stationary blocks are loaded at once.
        layout: layout of A's memory, "blocked" or "plain".
    """
    from placerl.primitives.fpga.gemm.timer import GemmTimer

    return GemmTimer(side=side, block_load=block_load, layout=layout)


def simulate(
    start: Callable[[], Any], parameters: Sequence[Any], sizes: Sequence[Any]
) -> list[tuple[int, int]]:
    """Return the cycles of products, and how many of them are stalls.

    A is read by columns in every dataflow. NS and WS request the columns of A. IS requests its rows, so for IS A is
    stored transposed. The blocked layout gives both without a stall.

    Args:
        sizes: the rows of A, its columns, the columns of B, and the dataflow of each product.
    """
    commands = [
        {
            "gemm": command_fields(GemmShape(a, b, c), side=parameters[0], dataflow=dataflow),
            "transposed_a": dataflow == "IS",
        }
        for a, b, c, dataflow in sizes
    ]
    finished = start().run({"commands": columns(commands)}, {"finished": len(commands)}).outputs["finished"]
    return list(zip(finished["cycles"].tolist(), finished["stalls"].tolist(), strict=True))


BLOCK = TimedBlock("gemm", "placerl.primitives.fpga.gemm.timer", build, simulate, example=lambda size: (1, 0))
