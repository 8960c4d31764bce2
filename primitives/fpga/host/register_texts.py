"""The C header and the Markdown table of a register map."""

from placerl.primitives.fpga.host.register_map import ACCESSES, Register, RegisterMap


def c_header(register_map: RegisterMap) -> str:
    """Return a C header with the address of every register, its reset value, and masks and shifts of its fields.

    Names begin with the map's name: `SCALER_FACTOR_ADDRESS`, `SCALER_CONTROL_START_MASK`.
    """
    prefix = register_map.name.upper()
    lines = [
        f"/* {register_map.description} Byte addresses of 32-bit registers. */",
        f"#ifndef {prefix}_REGISTERS_H",
        f"#define {prefix}_REGISTERS_H",
    ]
    for register in register_map.registers:
        name = f"{prefix}_{register.name.upper()}"
        lines += ["", f"/* {register.access}: {register.description} */"]
        lines.append(f"#define {name}_ADDRESS 0x{register.address:02X}u")
        if register.access in ("rw", "w1c"):
            lines.append(f"#define {name}_RESET 0x{register.reset:X}u")
        for field in register.fields:
            mask = ((1 << field.width) - 1) << field.lowest_bit
            lines.append(f"#define {name}_{field.name.upper()}_SHIFT {field.lowest_bit}")
            lines.append(f"#define {name}_{field.name.upper()}_MASK 0x{mask:X}u /* {field.description} */")
    return "\n".join([*lines, "", "#endif", ""])


def markdown(register_map: RegisterMap) -> str:
    """Return a page with a table of the registers, a line for each register and each field."""
    used = {register.access for register in register_map.registers}
    return "\n".join(
        [
            f"# Registers of {register_map.name}",
            "",
            register_map.description,
            "",
            "| address | bits | name | access | reset | description |",
            "|---|---|---|---|---|---|",
            *(line for register in register_map.registers for line in _lines(register)),
            "",
            *(f"- `{access}`: {meaning}." for access, meaning in ACCESSES.items() if access in used),
            "",
            "Other addresses, and writes to `ro` registers, are answered with SLVERR (2).",
            "",
        ]
    )


def _lines(register: Register) -> list[str]:
    reset = f"0x{register.reset:X}" if register.access in ("rw", "w1c") else ""
    lines = [
        f"| 0x{register.address:02X} | {_bits(0, register.width)} | `{register.name}` | `{register.access}` "
        f"| {reset} | {register.description} |"
    ]
    for field in register.fields:
        bits = _bits(field.lowest_bit, field.width)
        lines.append(f"| | {bits} | `{register.name}.{field.name}` | | | {field.description} |")
    return lines


def _bits(lowest: int, width: int) -> str:
    return f"{lowest + width - 1}:{lowest}" if width > 1 else str(lowest)
