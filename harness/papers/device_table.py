"""Defines tables with three columns, CPU, GPU and FPGA, over the batch size, as the papers' figures about devices show.

A claim states in its figure's file what the table of one machine holds (`OfDevices.device_tables`);
`harness.papers.device_figures` joins those of several machines, and the report draws all of them alike.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from placerl.harness.papers import charts
from placerl.harness.papers.base import Claim
from placerl.harness.papers.charts import Panel
from placerl.harness.papers.device_times import CPU, FPGA, GPU, NAMES, fastest_rows
from placerl.harness.papers.evidence import number
from placerl.harness.papers.number import Number, format_value
from placerl.harness.profile import simulated

COLUMNS = {kind: NAMES[kind] for kind in (CPU, GPU, FPGA)}
"""The kinds of devices of the columns, with their names."""
DESIGNS = {"learner.step": "systolic core", simulated.PIPELINE: "pipeline"}
"""The simulated learners, as readers see them."""


@dataclass(frozen=True)
class Entry:
    """One number in a cell of a table.

    Attributes:
        how: how it came about, such as the backend, or the cycles and the clock.
        machine: fingerprint of the machine that it is from; empty if it depends on no machine.
        run: when the run began that it is from; empty if it depends on no machine.
    """

    number: Number
    how: str = ""
    machine: str = ""
    run: str = ""


Cells = Mapping[str, Mapping[int, Sequence[Entry]]]
"""Entries by kind of device ("cpu", "cuda", "fpga"), and then by size."""


@dataclass(frozen=True)
class DeviceTable:
    """The numbers of CPU, GPU and FPGA for one operation over its size, those of a paper and those of this project.

    All numbers of a table have one unit: a table in seconds compares times, any other compares rates.

    Attributes:
        title: operation, such as "hopper-ddpg: gradient step".
        quantity: label of the numbers, with their unit, such as "time per call (s)".
        ours: this project's numbers.
        missing: by kind of device, what measures a missing number, at a size that "{size}" stands for.
        sizes: sizes that the paper's figure has, or that its statements name; others that were measured are added.
        published: the paper's numbers.
        stated: by size, what the paper's text says is best there; it may be empty.
        along: name of the sizes.
        drawn: whether a chart shows the table: papers draw times and rates over the batch size.
    """

    title: str
    quantity: str
    ours: Cells
    missing: Mapping[str, str]
    sizes: Sequence[int]
    published: Cells = field(default_factory=dict)
    stated: Mapping[int, str] = field(default_factory=dict)
    along: str = "batch size"
    drawn: bool = True

    @property
    def rows(self) -> list[int]:
        """Return the sizes of all rows, ascending."""
        cells = [cell for table in (self.ours, self.published) for cell in table.values()]
        return sorted({*self.sizes, *self.stated, *(size for by_size in cells for size in by_size)})

    def at(self, kind: str, size: int) -> Sequence[Entry]:
        """Return this project's numbers of a kind of device at a size; empty if there are none."""
        return self.ours.get(kind, {}).get(size, ())

    def best(self, size: int) -> dict[str, Entry]:
        """Return the best number of each kind of device that has one at a size, the best kind first."""
        best = {kind: min(some, key=_cost) for kind in COLUMNS if (some := self.at(kind, size))}
        return dict(sorted(best.items(), key=lambda item: _cost(item[1])))

    def said(self, size: int) -> str:
        """Return which kind of device is best at a size, and by how much; empty if fewer than two have a number.

        Two numbers that different runs measured are followed by when these began: a machine is not always as fast.
        """
        best = self.best(size)
        if len(best) < 2:
            return ""
        (kind, first), (other, second), *_ = best.items()
        notes = "".join(f" ({name} not run)" for one, name in COLUMNS.items() if one not in best)
        if first.run and second.run and first.run != second.run:
            notes += f"; different runs: {COLUMNS[kind]} {_began(first)}, {COLUMNS[other]} {_began(second)}"
        if max(_costs(first)) >= min(_costs(second)):
            return f"{COLUMNS[kind]} or {COLUMNS[other]}: their intervals overlap, or one has none{notes}"
        times = format_value(_cost(second) / _cost(first), 2)
        return f"{COLUMNS[kind]}, {times} times as fast as the {COLUMNS[other]}{notes}"

    def gaps(self) -> Iterator[str]:
        """Yield a sentence for each kind of device without a number of this project at some sizes: what measures it."""
        for kind, name in COLUMNS.items():
            if sizes := [size for size in self.rows if not self.at(kind, size)]:
                listed = ", ".join(f"{size:,}" for size in sizes)
                others = ", the others alike" if len(sizes) > 1 and "{size}" in self.missing[kind] else ""
                yield f"{name} not run at {listed}: {self.missing[kind].format(size=sizes[0])}{others}."

    def panel(self) -> Panel | None:
        """Return the axes of a chart of the best numbers, one line a kind of device, and of the published ones.

        None if the table is not to be drawn, if fewer than two kinds of devices have numbers, or if no line has two.
        """
        best = {size: self.best(size) for size in self.rows}
        lines = {kind: [(n, at[kind].number) for n, at in best.items() if kind in at] for kind in COLUMNS}
        if not self.drawn or sum(map(bool, lines.values())) < 2 or max(map(len, lines.values())) < 2:
            return None
        theirs = {
            kind: [(size, entry.number) for size, some in sorted(by_size.items()) for entry in some]
            for kind, by_size in self.published.items()
        }
        drawn = [
            charts.line(COLUMNS[kind], points) for side in (lines, theirs) for kind, points in side.items()
        ]
        return Panel(self.along, self.quantity, drawn, self.title, log_x=True, log_y=True)


class OfDevices(Claim):
    """What claims share whose figure is of CPU, GPU and FPGA."""

    def device_tables(self, frame: pd.DataFrame) -> Sequence[DeviceTable]:
        """Return CPU, GPU and FPGA next to each other, over the batch size.

        There is at least one table. Titles are the same whatever the measurements are.
        """
        raise NotImplementedError


def _began(entry: Entry) -> str:
    """Return the date and the minute at which a number's run began."""
    return entry.run[:16].replace("T", " ")


def _cost(entry: Entry) -> float:
    """Return what is lower for a better number: a time, or the inverse of a rate."""
    return entry.number.value if entry.number.unit == "s" else 1 / entry.number.value


def _costs(entry: Entry) -> tuple[float, float]:
    """Return the bounds of `_cost`; what depends on a machine and has no interval may have any value."""
    low, high = entry.number.low, entry.number.high
    if low is None or high is None:
        return (0.0, math.inf) if entry.machine else (_cost(entry), _cost(entry))
    return (low, high) if entry.number.unit == "s" else (1 / high, 1 / low if low > 0 else math.inf)


def of_times(
    rows: pd.DataFrame,
    workload: str,
    operation: str,
    sizes: Sequence[int],
    stated: Mapping[int, str] | None = None,
    published: Cells | None = None,
) -> DeviceTable:
    """Return the table of the fastest times per call of an operation.

    Args:
        rows: the times, with their kind of device, as `device_times.times` returns them.
        stated, published: as of `DeviceTable`.
    """
    ours = {
        kind: {size: [Entry(number(row, operation), _how(row))] for size, row in by_size.items()}
        for kind, by_size in fastest_rows(rows).items()
        if kind in COLUMNS
    }
    profile = f"`placerl profile {workload} --batch-size {{size}}`"
    missing = {
        CPU: profile,
        GPU: f"{profile} on a machine with a CUDA device, or `make gpu-claims` there",
        FPGA: f"`placerl profile {workload} --batch-size {{size}} --device fpga:u200`",
    }
    title, quantity = f"{workload}: {operation}", "time per call (s)"
    return DeviceTable(title, quantity, ours, missing, sizes, published or {}, stated or {})


def _how(row: Any) -> str:
    """Return the backend of a time; of a simulated one the design, with cycles and clock if the row states them."""
    if row.kind != FPGA:
        return str(row.backend)
    design = f"S = {int(row.banks or 1)}" if row.primitive.startswith("sum_tree.") else DESIGNS[row.primitive]
    if row.cycles is None or row.clock_mhz is None:
        return design
    return f"{design}: {int(row.cycles):,} cycles at {float(row.clock_mhz):g} MHz"


def cells(numbers: Iterable[tuple[str, int, Number, str]]) -> Cells:
    """Return numbers as cells of a table, from kind of device and size of each, and how it came about."""
    by_kind: dict[str, dict[int, list[Entry]]] = {}
    for kind, size, printed, how in numbers:
        by_kind.setdefault(kind, {}).setdefault(size, []).append(Entry(printed, how))
    return by_kind
