"""The page of an exported block: its diagram, its cycles against the paper's formula, what differs, and its cells."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from placerl.primitives.fpga.cycles import of_designs
from placerl.primitives.fpga.cycles.difference_table import COLUMNS, CycleDifference
from placerl.primitives.fpga.export.diagram import diagrams
from placerl.primitives.fpga.tools import counted, placed
from placerl.primitives.fpga.tools.blocks import Block

Values = Mapping[str, int | str | bool]


def page(block: Block, values: Values, design: Any, text: str, module: str) -> str:
    """Return the page of a block in Markdown, with diagrams in Mermaid.

    Args:
        values: the block's parameters.
        design: the block with these parameters.
        text: its Verilog, as `verilog.export` returns it.
        module: the name of its module.
    """
    lines = [f"# {block.name}", "", block.description, ""]
    lines += _table(("parameter", "value"), [(name, _stated(value)) for name, value in values.items()])
    lines += [
        "## Blocks",
        "",
        "An arrow is data of two bits or more, on its way through wires, logic and registers of the module that is "
        "drawn, and has the number of bits that its source gives. Handshakes and other single bits are left out.",
        "",
    ]
    for name, diagram in diagrams(text, module):
        lines += [f"### {name}", "", "```mermaid", diagram, "```", ""]
    if block.cycles and (rows := list(block.cycles(design))):
        lines += _cycles(rows)
    lines += _cells(block, values)
    return "\n".join(lines)


def _stated(value: int | str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows)] + [""]


def _cycles(rows: Sequence[CycleDifference]) -> list[str]:
    meanings = {
        name: of_designs.reasons(row.block)[name]
        for row in rows
        for name, cycles in row.reasons.items()
        if cycles
    }
    return [
        "## Clock cycles",
        "",
        "formula: of the paper (`modelled`); simulated: of this design, by closed forms that the project's tests "
        "compare with its RTL.",
        "",
        *_table(COLUMNS, [row.cells() for row in rows]),
        "What differs:",
        "",
        *(f"- {name}: {text}" for name, text in meanings.items()),
        "",
    ]


def _cells(block: Block, values: Values) -> list[str]:
    """Return what is committed of the cells and the clock of a block with these parameters, if there is something."""
    lines = []
    for name, row in counted.committed().items():
        if _is(block, values, name):
            cells = [
                (kind.replace("_", " "), f"{number:,.10g}") for kind, number in asdict(row.resources).items()
            ]
            heading = "Cells after synthesis by Yosys for UltraScale+, before placement (`modelled`)"
            lines += [f"## {heading}", "", *_table(("cell", "number"), cells)]
    for name, found in placed.committed().items():
        if _is(block, values, name):
            clock = (
                f"{found.clock_mhz:g} MHz on a Lattice ECP5, speed grade {found.speed_grade} (`modelled`)."
            )
            lines += ["## Clock", "", f"{clock} Slowest path: {found.path}.", ""]
    return lines


def _is(block: Block, values: Values, name: str) -> bool:
    """Return whether a committed result's name, such as "gemm-core side=16", is of the block with these parameters."""
    named, *given = name.split(" ")
    return named == block.name and block.parameters(dict(text.split("=", 1) for text in given)) == values
