import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.host.register_map import COMMON, Field, Register, RegisterMap


def test_a_map_finds_registers_by_name_and_counts_address_bits() -> None:
    registers = RegisterMap("unit", "A unit.", (*COMMON, Register("size", 0x20, "rw")))
    assert registers["size"].address == 0x20
    assert registers.address_bits == 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "Size"}, "lower case"),
        ({"name": "bus"}, "lower case"),
        ({"address": 2}, "multiple of 4"),
        ({"access": "wo"}, "allowed: rw"),
        ({"width": 33}, "1 to 32"),
        ({"width": 4, "reset": 16}, "4 bits"),
        ({"access": "ro", "reset": 1}, "allowed for 'ro'"),
        ({"width": 4, "fields": (Field("high", 3, 2),)}, "bits 3 to 4"),
        ({"fields": (Field("a", 0, 2), Field("b", 1))}, "field b"),
    ],
)
def test_a_wrong_register_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Register(**{"name": "size", "address": 0, "access": "rw", **changes})  # type: ignore[arg-type]


def test_names_and_addresses_differ() -> None:
    with pytest.raises(ValueError, match="address: found 0 twice"):
        RegisterMap("unit", "A unit.", (Register("a", 0, "rw"), Register("b", 0, "rw")))
    with pytest.raises(ValueError, match="name: found 'a' twice"):
        RegisterMap("unit", "A unit.", (Register("a", 0, "rw"), Register("a", 4, "rw")))
