"""FPGA devices, what they hold, and the clocks assumed on them: the catalogue `devices.toml`."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Device:
    """Resources of one FPGA.

    Attributes:
        name: as its maker calls it. source: where the figures come from.
        luts, flip_flops, dsps: counts.
        block_rams: count of blocks of `block_ram_bits` bits; ultra_rams: of 288 Kbit, where there are any.
        super_logic_regions: dies.
        clock_hz: that designs on the device are assumed to run at: a published design's. 0 where no paper gives one.
        clock_source: the paper and the place that give the clock; empty without one.
    """

    name: str
    luts: int
    flip_flops: int
    dsps: int
    block_rams: int
    block_ram_bits: int
    ultra_rams: int
    super_logic_regions: int
    source: str
    clock_hz: float = 0.0
    clock_source: str = ""


@cache
def catalogue() -> dict[str, Device]:
    """Every device by its key."""
    text = Path(__file__).with_name("devices.toml").read_text()
    return {key: Device(**fields) for key, fields in tomllib.loads(text).items()}


def device(key: str) -> Device:
    """The device of that key; ValueError where there is none."""
    if key not in catalogue():
        raise ValueError(f"device: found {key!r}; allowed: {', '.join(catalogue())}")
    return catalogue()[key]


def clocks_hz() -> dict[str, float]:
    """Return the assumed clock of each device that has one, Hz, by key, in the order of the file."""
    return {key: found.clock_hz for key, found in catalogue().items() if found.clock_hz}
