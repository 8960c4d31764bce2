"""The catalogue `devices.toml` of FPGA devices, with their resources and assumed clock frequencies."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class FpgaDevice:
    """Resources of one FPGA.

    Attributes:
        name: the maker's name.
        source: source of the figures.
        luts, flip_flops, dsps: numbers of each.
        block_rams: number of blocks of `block_ram_bits` bits.
        ultra_rams: number of blocks of 288 Kbit.
        super_logic_regions: number of dies.
        clock_hz: clock frequency assumed for designs on the device, Hz: a published design's; 0 if no paper gives
            one.
        clock_source: paper and place that give the frequency; empty without one.
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
def catalogue() -> dict[str, FpgaDevice]:
    """Return every device by its key."""
    text = Path(__file__).with_name("devices.toml").read_text()
    return {key: FpgaDevice(**fields) for key, fields in tomllib.loads(text).items()}


def device(key: str) -> FpgaDevice:
    """Return the device with this key; raises ValueError if there is none."""
    if key not in catalogue():
        raise ValueError(f"device: found {key!r}; allowed: {', '.join(catalogue())}")
    return catalogue()[key]


def clocks_hz() -> dict[str, float]:
    """Return the assumed clock of each device that has one, Hz, by key, in the order of the file."""
    return {key: found.clock_hz for key, found in catalogue().items() if found.clock_hz}
