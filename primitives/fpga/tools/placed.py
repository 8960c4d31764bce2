"""Blocks as they were placed and routed: the committed results of `placement`. Reading them needs no tool."""

import json
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("placed.json")


@dataclass(frozen=True)
class Placed:
    """A block on the device.

    Attributes:
        verilog: `resources.verilog_key` of the block.
        clock_mhz: what static timing allows.
        used: of each kind of cell of the device, how many are used.
        tools: their versions.
    """

    verilog: str
    clock_mhz: float
    used: dict[str, int]
    tools: dict[str, str]


def committed() -> dict[str, Placed]:
    """Return what is committed, by the subject's name."""
    return {name: Placed(**row) for name, row in json.loads(FILE.read_text()).items()}
