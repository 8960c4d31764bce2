"""The catalogue `devices.toml` of FPGA devices, with their resources and assumed clock frequencies."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class FpgaDevice:
    """The resources of one FPGA, and the clock frequency assumed for designs on it.

    Attributes:
        name: the device's name, such as "AMD Alveo U50 (XCU50)".
        luts, flip_flops, dsps: numbers of look-up tables, flip-flops and DSPs.
        block_rams: number of blocks of `block_ram_bits` bits.
        ultra_rams: number of blocks of 288 Kbit.
        super_logic_regions: number of dies.
        source: source of the figures.
        clock_hz: clock frequency of a published design on the device, Hz; 0 if no paper gives one.
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
    """Return every device of `devices.toml`, by its key, such as "u200"."""
    text = Path(__file__).with_name("devices.toml").read_text()
    return {key: FpgaDevice(**fields) for key, fields in tomllib.loads(text).items()}


def device(key: str) -> FpgaDevice:
    """Return the device with this key of `devices.toml`; raises ValueError if there is none."""
    if key not in catalogue():
        raise ValueError(f"device: found {key!r}; allowed: {', '.join(catalogue())}")
    return catalogue()[key]


def clocks_hz() -> dict[str, float]:
    """Return the assumed clock frequency of each device for which a paper gives one.

    Returns:
        Hz by the device's key, such as "u200", in the order of `devices.toml`.
    """
    return {key: found.clock_hz for key, found in catalogue().items() if found.clock_hz}
