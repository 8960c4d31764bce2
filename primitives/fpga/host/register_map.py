"""The registers of a design, described once as data, from which hardware, header, table and golden model come."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

WORD_BITS = 32
WORD_BYTES = WORD_BITS // 8
ACCESSES = {
    "rw": "the host reads and writes it",
    "ro": "the host reads what the design drives",
    "w1c": "flags that the design sets, and that the host clears by writing 1",
    "pulse": "bits that the host writes as 1 are 1 for one cycle; reads as 0",
}
"""The kinds of access of a register, and what they mean."""
RESERVED = ("bus", "elaborate", "signature", "metadata", "map", "registers")


class AxiResponse(IntEnum):
    """The outcome of a read or a write, as AXI codes it."""

    OKAY = 0
    SLVERR = 2  # there is no such register, or it cannot be written


@dataclass(frozen=True)
class Field:
    """Some bits of a register that have a name.

    Attributes:
        name: a Python and C identifier.
        lowest_bit: position of its least significant bit.
        width: number of bits.
        description: a sentence.
    """

    name: str
    lowest_bit: int
    width: int = 1
    description: str = ""


@dataclass(frozen=True)
class Register:
    """A register of up to 32 bits.

    Attributes:
        name: a Python and C identifier, in lower case.
        address: in bytes; a multiple of 4.
        access: one of `ACCESSES`.
        width: bits that exist; those above read as 0.
        reset: the value after a reset, for "rw" and "w1c".
        description: a sentence, with units.
        fields: parts with names; bits of no field exist too.
    """

    name: str
    address: int
    access: str
    width: int = WORD_BITS
    reset: int = 0
    description: str = ""
    fields: tuple[Field, ...] = ()

    def __post_init__(self) -> None:
        where = f"register {self.name}"
        if not self.name.isidentifier() or self.name != self.name.lower() or self.name in RESERVED:
            raise ValueError(
                f"name: found {self.name!r}; allowed: an identifier in lower case, not {RESERVED}"
            )
        if self.address < 0 or self.address % WORD_BYTES:
            raise ValueError(
                f"{where}: address: found {self.address:#x}; allowed: a multiple of {WORD_BYTES}"
            )
        if self.access not in ACCESSES:
            raise ValueError(f"{where}: access: found {self.access!r}; allowed: {', '.join(ACCESSES)}")
        if not 1 <= self.width <= WORD_BITS:
            raise ValueError(f"{where}: width: found {self.width}; allowed: 1 to {WORD_BITS}")
        if not 0 <= self.reset < 1 << self.width:
            raise ValueError(f"{where}: reset: found {self.reset}; allowed: {self.width} bits")
        if self.reset and self.access in ("ro", "pulse"):
            raise ValueError(f"{where}: reset: found {self.reset}; allowed for {self.access!r}: 0")
        taken = 0
        for field in self.fields:
            bits = ((1 << field.width) - 1) << field.lowest_bit
            if field.width < 1 or field.lowest_bit < 0 or bits & taken or bits >> self.width:
                raise ValueError(
                    f"{where}: field {field.name}: found bits {field.lowest_bit} to "
                    f"{field.lowest_bit + field.width - 1}; allowed: free ones below {self.width}"
                )
            taken |= bits


@dataclass(frozen=True)
class RegisterMap:
    """The registers of a design.

    Attributes:
        name: a C identifier, which begins the names of the header.
        description: a sentence.
        registers: at least one; names and addresses differ.
    """

    name: str
    description: str
    registers: tuple[Register, ...]

    def __post_init__(self) -> None:
        if not self.registers:
            raise ValueError(f"registers of {self.name}: found none; allowed: at least one")
        for what in ("name", "address"):
            values = [getattr(register, what) for register in self.registers]
            if twice := {value for value in values if values.count(value) > 1}:
                raise ValueError(
                    f"registers of {self.name}: {what}: found {twice.pop()!r} twice; allowed: once"
                )

    @property
    def address_bits(self) -> int:
        """Number of bits of a byte address within the map."""
        return max(register.address + WORD_BYTES - 1 for register in self.registers).bit_length()

    def __getitem__(self, name: str) -> Register:
        """Return the register with this name.

        Raises:
            KeyError: there is none.
        """
        return {register.name: register for register in self.registers}[name]


def float_word(number: float) -> int:
    """Return the 32 bits of a number in float32, as a register holds it."""
    return int(np.float32(number).view(np.uint32))


COMMON = (
    Register(
        "control",
        0x00,
        "pulse",
        width=1,
        description="Commands.",
        fields=(
            Field(
                "start",
                0,
                description="Starts one run with the values in the registers, which must not change while "
                "status.busy is 1. During a run one more start is kept for after it; events.done is then set "
                "only after the last run.",
            ),
        ),
    ),
    Register(
        "status",
        0x04,
        "ro",
        width=1,
        description="What the design does now.",
        fields=(Field("busy", 0, description="A run has started and has not ended."),),
    ),
    Register(
        "events",
        0x08,
        "w1c",
        width=2,
        description="What has happened.",
        fields=(
            Field("done", 0, description="A run has ended."),
            Field(
                "packet",
                1,
                description="A packet from the host had `last` where it must not be.",
            ),
        ),
    ),
)
"""The first registers of every design that the host starts, at addresses 0x00 to 0x0B."""
