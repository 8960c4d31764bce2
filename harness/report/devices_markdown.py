"""Writes the page of figures about CPU, GPU and FPGA in `docs/results`, with a picture of each."""

from collections.abc import Iterator
from pathlib import Path

from placerl.harness.papers.device_figures import DeviceFigure
from placerl.harness.papers.device_table import COLUMNS, DeviceTable
from placerl.harness.report.devices import Devices
from placerl.harness.report.markdown_text import escaped
from placerl.harness.report.text_tables import number_text

PICTURES = Path("docs", "pictures")


def picture_of(key: str) -> Path:
    """Return the path of the picture of a figure with a key, relative to the root of the repository."""
    return PICTURES / f"devices-{key.lower()}.svg"


def page(devices: Devices, drawn: set[str]) -> str:
    """Return the page in Markdown."""
    lines = [
        "# CPU, GPU and FPGA next to each other",
        "",
        "The papers' tables and figures about devices, each with a column for the CPU, the GPU and the FPGA: what the "
        "paper publishes, what was measured here on the machines of [all evidence](verdicts.md), and what follows. A "
        "letter names the machine of a number; the FPGA is simulated, cycle by cycle, at the stated clock, which is an "
        "assumption. Times of different machines next to each other show orders of magnitude; a verdict compares what "
        "one machine measured. Where the best two numbers are from different runs, the column says when these began: "
        "the same machine may have been faster in one of them. `placerl report` shows the same with the numbers of "
        "your own machine.",
        "",
    ]
    for figure in devices.figures:
        lines += _figure(devices, figure, picture=figure.key in drawn)
    return "\n".join(lines)


def _figure(devices: Devices, figure: DeviceFigure, *, picture: bool) -> Iterator[str]:
    yield from (f"## {figure.place}", "")
    for one in figure.claims:
        line = f"- {one.claim.key}: {escaped(one.claim.statement)}: **{one.outcome}**"
        if second := figure.second_findings.get(one.claim.key):
            words, outcome = second
            line += f" with the best of each device; **{outcome}** as in the paper: {words}"
        yield line
    yield ""
    if picture:
        yield from (
            f"![{figure.place}: the best of each device](../pictures/{picture_of(figure.key).name})",
            "",
        )
    for table in figure.tables:
        yield from _table(devices, table)


def _table(devices: Devices, table: DeviceTable) -> Iterator[str]:
    columns = [table.along, *COLUMNS.values(), "best here", "the paper says"]
    yield from (f"### {table.title}", "", f"{table.quantity}.", "")
    yield from (f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}")
    for size in table.rows:
        cells = [_cell(devices, table, kind, size) for kind in COLUMNS]
        said = [escaped(table.said(size)), escaped(table.stated.get(size, ""))]
        yield f"| {size:,} | {' | '.join(cells + said)} |"
    yield ""
    yield from (f"- {gap}" for gap in table.gaps())
    yield ""


def _cell(devices: Devices, table: DeviceTable, kind: str, size: int) -> str:
    shown = [(entry.number, entry.how) for entry in table.published.get(kind, {}).get(size, ())]
    for entry in table.at(kind, size):
        where = devices.machine(entry, kind)
        shown += [(entry.number, f"{entry.how}; {where}" if where else entry.how)]
    lines = [escaped(f"{number_text(value)}: {how}") for value, how in shown]
    if not table.at(kind, size):
        lines.append("not run")
    return "<br>".join(lines)
