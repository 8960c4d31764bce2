import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.host.register_map import COMMON, AxiResponse, Register, RegisterMap
from tests.primitives.fpga.host.golden import GoldenRegisters

OKAY, SLVERR = AxiResponse.OKAY, AxiResponse.SLVERR
MAP = RegisterMap("unit", "A unit.", (*COMMON, Register("size", 0x10, "rw", 20, 5)))


def test_a_write_changes_the_bytes_of_its_strobe() -> None:
    golden = GoldenRegisters(MAP)
    assert golden.read(0x10) == (5, OKAY)
    assert golden.write(0x10, 0xFFFFFFFF, strobe=0b0110) == OKAY
    assert golden.read(0x13) == (0xFFF05, OKAY)


def test_flags_stay_until_the_host_clears_them() -> None:
    golden = GoldenRegisters(MAP)
    golden.raise_events("events", 1)
    assert golden.write(0x08, 0) == OKAY
    assert golden.read(0x08) == (1, OKAY)
    golden.write(0x08, 1)
    assert golden.read(0x08) == (0, OKAY)


def test_errors_and_pulses() -> None:
    golden = GoldenRegisters(MAP)
    assert golden.write(0x04, 1) == SLVERR
    assert golden.read(0x0C) == (0, SLVERR)
    golden.write(0x00, 3)
    assert golden.pulses == {"control": 1}
    assert golden.read(0x00) == (0, OKAY)
