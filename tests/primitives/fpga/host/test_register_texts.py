import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.host.register_map import COMMON, Field, Register, RegisterMap
from placerl.primitives.fpga.host.register_texts import c_header, markdown

RATE = Register("rate", 0x10, "rw", 16, 0x120, "The step.", (Field("mantissa", 4, 12, "Its digits."),))
MAP = RegisterMap("unit", "A unit.", (*COMMON, RATE))


def test_a_c_compiler_reads_the_header(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "unit.h").write_text(c_header(MAP))
    (tmp_path / "check.c").write_text(
        '#include "unit.h"\n#include "unit.h"\n'
        '_Static_assert(UNIT_RATE_ADDRESS == 16 && UNIT_RATE_RESET == 0x120, "");\n'
        '_Static_assert(UNIT_RATE_MANTISSA_SHIFT == 4 && UNIT_RATE_MANTISSA_MASK == 0xFFF0, "");\n'
        '_Static_assert(UNIT_CONTROL_START_MASK == 1 && UNIT_EVENTS_ADDRESS == 8, "");\n'
    )
    subprocess.run([compiler, "-Wall", "-Werror", "-c", "check.c"], cwd=tmp_path, check=True)


def test_the_table_has_a_line_for_each_register_and_field() -> None:
    lines = markdown(MAP).splitlines()
    assert "| 0x10 | 15:0 | `rate` | `rw` | 0x120 | The step. |" in lines
    assert "| | 15:4 | `rate.mantissa` | | | Its digits. |" in lines
    assert sum(line.startswith("| 0x") for line in lines) == 4
