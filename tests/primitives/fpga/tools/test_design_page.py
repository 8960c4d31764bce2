"""The page of an exported block."""

import re

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.export import verilog
from placerl.primitives.fpga.tools.blocks import BLOCKS
from placerl.primitives.fpga.tools.design_page import page


def written(name: str, **given: str) -> str:
    block = BLOCKS[name]
    values = block.parameters(given)
    design = block.make(**values)
    return page(block, values, design, verilog.export(design, "block"), "block")


def test_a_page_has_a_diagram_and_the_cycles_with_what_their_differences_mean() -> None:
    text = written("replay-pipeline", fanout="2", levels="2")
    assert re.findall(r"^#+ .*", text, re.MULTILINE)[:5] == [
        "# replay-pipeline",
        "## Blocks",
        "### block",
        "### front_end",
        "### level_0",
    ]
    assert "| fanout | 2 |" in text
    assert re.search(r'```mermaid\nflowchart LR\n  n0\(\["last_leaf"\]\)', text)
    assert "| B = 256, K = 2, depth 2, S = 1 | 256 | 270 | +14 | fill and drain +14 |" in text
    assert re.findall(r"^- .*?:", text, re.MULTILINE) == ["- fill and drain:"]
    assert "## Cells" not in text  # of other sizes


def test_a_float32_core_has_the_reasons_of_its_own_formula() -> None:
    text = written("gemm-core", side="2", float32="true")
    assert "| core of float32 | 8 x 8 x 8, NS | 131 |" in text
    assert re.findall(r"^- .*?:", text, re.MULTILINE) == [
        "- fill and drain:",
        "- idle turns:",
        "- short passes:",
    ]


def test_committed_cells_and_clock_are_those_of_the_same_parameters() -> None:
    text = written("processing-element", width="32")
    assert "## Cells after synthesis by Yosys" in text
    assert "| dsps | 4 |" in text
    assert "MHz on a Lattice ECP5" in text
    assert "## Clock cycles" not in text
