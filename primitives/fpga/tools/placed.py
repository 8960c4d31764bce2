"""Reads the committed results of placing and routing blocks (`placement`), for which it needs no tool."""

import json
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("placed.json")


@dataclass(frozen=True)
class Placed:
    """The result of placing and routing a hardware block.

    Attributes:
        verilog: hash of the block's Verilog (`resources.verilog_key`).
        speed_grade: of the device, 6 (slow) to 8 (fast).
        clock_mhz: clock frequency that static timing analysis allows.
        path: the slowest path, which limits the clock: where it begins and ends, and its nanoseconds in cells and in
            wires.
        used: number of used cells, by kind of cell of the device.
        tools: versions of the tools.
    """

    verilog: str
    speed_grade: int
    clock_mhz: float
    path: str
    used: dict[str, int]
    tools: dict[str, str]


def committed() -> dict[str, Placed]:
    """Return the committed results, by the block's name (`counted.CountedBlock.name`)."""
    return {name: Placed(**row) for name, row in json.loads(FILE.read_text()).items()}
