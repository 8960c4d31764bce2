"""The layout transformation of convolutions, which moves P words per cycle (`convolution.layout_transform`)."""

from collections.abc import Callable, Sequence
from typing import Any

from placerl.primitives.fpga.cycles.timed_block import TimedBlock
from placerl.primitives.fpga.simulation.ports import columns


def build(lanes: int) -> Any:
    """Return the block.

    Args:
        lanes: P, words of a move.
    """
    from placerl.primitives.fpga.convolution.layout_transform import LayoutTransform

    return LayoutTransform(lanes=lanes)


def simulate(start: Callable[[], Any], parameters: Sequence[Any], sizes: Sequence[Any]) -> list[int]:
    """Return the cycles from the command of a band of a convolution to its last move.

    Args:
        sizes: the number of moves of each band, and the fields of its command.
    """
    model, found = start(), []
    for moves, command in sizes:
        run = model.run({"commands": columns([command])}, {"moves": moves})
        found.append(int(run.output_cycles["moves"][-1] - run.input_cycles["commands"][0]))
    return found


BLOCK = TimedBlock(
    "layout_transform", "placerl.primitives.fpga.convolution.layout_transform", build, simulate
)
