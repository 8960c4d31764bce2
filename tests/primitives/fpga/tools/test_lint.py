"""Verilator's lint: what it must find, and that every exported block is clean."""

import re
from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.export import toolchain, verilog
from placerl.primitives.fpga.export.published import published
from placerl.primitives.fpga.host import with_axi_names
from placerl.primitives.fpga.tools.blocks import BLOCKS
from tests.primitives.fpga.tools import lint

pytestmark = pytest.mark.skipif(
    bool(toolchain.unavailable_reason()), reason=toolchain.unavailable_reason() or "available"
)

DEFECTS = {
    "WIDTHTRUNC": ("input [7:0] a, output [3:0] b", "assign b = a + 8'd1;"),
    "UNUSEDSIGNAL": ("input a, input c, output b", "assign b = a;"),
    "UNDRIVEN": ("input a, output b", "wire never; assign b = a & never;"),
    "MULTIDRIVEN": (
        "input clk, input a, output reg b",
        "always @(posedge clk) b <= a; always @(negedge clk) b <= !a;",
    ),
    "LATCH": ("input a, input c, output reg b", "always @* if (c) b = a;"),
    "ALWNEVER": ("output reg b", "always @* b = 1'b0;"),
    "ASCRANGE": ("input [-1:0] a, output [1:0] b", "assign b = a;"),
    "PINMISSING": ("input a, output b", "inner inner (.a(a)); assign b = a;"),
}
INNER = "module inner (input a, output b);\n  assign b = a;\nendmodule\n"


@pytest.mark.parametrize("code", DEFECTS)
def test_a_defect_is_found(code: str) -> None:
    ports, body = DEFECTS[code]
    declared = ";\n  ".join(ports.split(", "))
    names = ", ".join(port.split()[-1] for port in ports.split(", "))
    text = f"module top({names});\n  {declared};\n  {body}\nendmodule\n" + (INNER if "inner" in body else "")
    found = lint.warnings(text)
    assert any(f"-{code}:" in line for line in found), found


@pytest.mark.parametrize("code", ["UNDRIVEN", "MULTIDRIVEN", "PINMISSING"])
def test_yosys_finds_a_defect(code: str) -> None:
    ports, body = {
        **DEFECTS,
        "MULTIDRIVEN": ("input a, input c, output b", "assign b = a; assign b = c;"),
        "PINMISSING": ("input a, output b", "other inner (.a(a)); assign b = a;"),
    }[code]
    assert lint.yosys_warnings(f"module top({ports});\n  {body}\nendmodule\n")


def test_an_unused_register_is_found_and_an_unused_name_is_not() -> None:
    text = """module top(clk, a, b);
  input clk;
  input a;
  output b;
  reg held;
  wire other;
  assign other = a;
  assign b = a;
  always @(posedge clk) held <= a;
endmodule
"""
    (line,) = lint.warnings(text)
    assert "'held'" in line


@pytest.mark.parametrize("kept", [True, False])
def test_a_copy_of_a_register_may_be_unused_where_another_is_used(kept: bool) -> None:
    text = f"""module top(clk, a, b);
  input clk;
  input a;
  output b;
  reg held;
  reg \\held$1 ;
  assign b = {"held" if kept else "a"};
  always @(posedge clk) held <= a;
  always @(posedge clk) \\held$1 <= a;
endmodule
"""
    assert len(lint.warnings(text)) == (0 if kept else 2)


def test_what_is_no_verilog_is_an_error() -> None:
    assert any(line.startswith("%Error") for line in lint.warnings("module top; nonsense"))


def test_every_waiver_has_a_reason() -> None:
    """A rule stands behind a comment of its own."""
    paragraphs = Path(lint.WAIVERS).read_text().split("\n\n")[1:]
    for paragraph in paragraphs:
        *reason, rule = paragraph.strip().splitlines()
        assert re.match(r"lint_off -rule [A-Z]+", rule)
        assert reason
        assert all(line.startswith("// ") for line in reason)


# As small as a block comes: a larger one has more of the same modules. What is not named has its defaults.
SMALL = {
    "gemm-core": [
        {"side": "2"},
        {"side": "2", "configurable": "true"},
        {"side": "2", "float32": "true"},
    ],
    "ppo-accelerator": [{"side": "2", "batch": "4"}, {"side": "2", "batch": "4", "clips": "true"}],
    "weight-update": [{"side": "2"}],
    "reduce-unit": [{"lanes": "2"}],
    "replay-pipeline": [
        {"fanout": "4", "levels": "2"},
        {"fanout": "3", "levels": "2", "form": "narrow"},
        {"fanout": "4", "levels": "2", "leaves": "9"},
        {"fanout": "3", "levels": "3", "leaves": "5", "form": "narrow"},
    ],
    "banked-replay-pipeline": [
        {"banks": "2", "levels": "1"},
        {"banks": "2", "levels": "1", "remembers": "true"},
        {"banks": "2", "levels": "1", "leaves": "5"},
    ],
    "lane-route": [{"banks": "2", "levels": "1"}],
    "bank-queues": [{"banks": "2", "levels": "1"}],
    "processing-element": [{}, {"configurable": "true"}],
    "float-operator": [{"operator": name} for name in ("add", "mul", "from_integer", "lt")],
    "map-accelerator": [
        {"network": "small", "lanes": "1", "batch": "2", "fanout": "2", "levels": "1"},
        {"network": "small", "batch": "2", "banks": "2", "fanout": "2", "levels": "2", "leaves": "3"},
    ],
    "learner-pipeline": [{"inputs": "2", "hidden": "2", "samples": "2"}],
    "fixar": [{"network": "swimmer", "side": "4"}],
}
QUICK = (
    "processing-element",
    "float-operator",
    "float-element",
    "weight-update",
    "replay-pipeline",
    "lane-route",
    "bank-queues",
)
LARGE = ("map-accelerator", "ppo-accelerator", "fixar", "learner-pipeline", "banked-replay-pipeline")
"""Blocks whose exports take a minute or more on a slow processor."""


def _marks(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] * (name not in QUICK) + [pytest.mark.long] * (name in LARGE)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in BLOCKS])
def test_exports_are_clean(name: str) -> None:
    block, top = BLOCKS[name], name.replace("-", "_")
    for given in SMALL.get(name, [{}]):
        design = with_axi_names(block.make(**block.parameters(given)))
        text = published(verilog.export(design, top))
        assert lint.warnings(text, top) == []
        assert lint.yosys_warnings(text, top) == []
