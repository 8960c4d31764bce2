"""The compute unit of float32 that multiplies matrices, timed by its controller and A's memory alone (`gemm.timer`).

Stationary blocks are loaded at once. In the blocked layout A's memory always answers.
"""

from typing import Any

from placerl.primitives.fpga.cycles.blocks import gemm
from placerl.primitives.fpga.cycles.timed_block import TimedBlock


def build(side: int, layout: str = "blocked") -> Any:
    """Return the timer of a unit.

    Args:
        layout: layout of A's memory, "blocked" or "plain".
    """
    from placerl.primitives.fpga.gemm.timer import GemmTimer

    return GemmTimer(side=side, block_load=True, layout=layout, float32=True)


BLOCK = TimedBlock(
    "gemm_float32",
    "placerl.primitives.fpga.gemm.timer",
    build,
    gemm.simulate,
    example=lambda size: (1, 0),
)
