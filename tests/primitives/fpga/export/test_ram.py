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
    assert "ram_style" not in text


def test_a_memory_that_asks_for_ultra_ram_says_so_at_its_instance() -> None:
    text = verilog.export(Ram(width=40, depth=3, ultra=True), name="memory")
    assert '(* ram_style = "ultra" *)\n  placerl_ram #(' in text
