"""Memories in an export."""

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.export import verilog
from placerl.primitives.fpga.export.ram import Ram


def test_memories_of_an_export_are_instances() -> None:
    text = verilog.export(Ram(width=40, depth=3), name="memory")
    assert "module memory(" in text
    assert "placerl_ram #(" in text
    assert "module placerl_ram" in text
