"""Lays out PPO Table 2 with a column for CPU, CPU-GPU and CPU-FPGA, the published rates and those of this project."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from placerl.harness.papers.device_table import Cells, DeviceTable, Entry, cells
from placerl.harness.papers.device_times import CPU, FPGA, GPU
from placerl.harness.papers.evidence import rate, rows_of
from placerl.harness.papers.number import from_cell, scaled
from placerl.harness.papers.ppo.judged_iterations import joined
from placerl.harness.papers.ppo.table_2_iterations import BENCHMARKS, EXPERIMENT, TIME, table_columns
from placerl.primitives.fpga.cycles.ppo import PpoIteration

LIBRARIES = ("Spinning Up", "Baselines")
PLATFORMS = {CPU: "CPU", GPU: "CPU-GPU", FPGA: "CPU-FPGA"}
VARIED = {"M": "minibatch", "N": "agents", "T": "steps"}
"""The sizes that Table 2 varies, with their names in `PpoIteration`."""
ALONG = {"M": "mini-batch M", "N": "agents N", "T": "steps T"}
MISSING = {
    CPU: "`placerl reproduce --only PPO-T2 --tier full`",
    GPU: "`make gpu-claims` on a machine with a CUDA device, which varies M",
    FPGA: "`placerl reproduce --only PPO-T2 --tier full`",
}


def tables(frame: pd.DataFrame, benchmark: str) -> list[DeviceTable]:
    """Return the inferences per second of a benchmark: one table for each size that varies while the others stay."""
    by_sizes: dict[tuple[str, str], list[tuple[str, str, PpoIteration]]] = {}
    for library in LIBRARIES:
        for column, iteration in table_columns(benchmark, library).items():
            letter = column[0]
            others = ", ".join(
                f"{one} = {getattr(iteration, VARIED[one])}" for one in VARIED if one != letter
            )
            by_sizes.setdefault((letter, others), []).append((library, column, iteration))
    timed: dict[str, dict[PpoIteration, list[Any]]] = {
        FPGA: {one: [row] for one, row in joined(frame, benchmark).items()}
    }
    for kind in (CPU, GPU):
        timed[kind] = {}
        for row in rows_of(frame, EXPERIMENT, TIME, workload=BENCHMARKS[benchmark], device=kind):
            timed[kind].setdefault(PpoIteration(**row.parameters.iteration), []).append(row)
    return [
        _table(benchmark, letter, others, columns, timed) for (letter, others), columns in by_sizes.items()
    ]


def _table(
    benchmark: str,
    letter: str,
    others: str,
    columns: Sequence[tuple[str, str, PpoIteration]],
    timed: dict[str, dict[PpoIteration, list[Any]]],
) -> DeviceTable:
    sizes = {iteration: getattr(iteration, VARIED[letter]) for _, _, iteration in columns}
    ours: Cells = {
        kind: {size: [_entry(row, one) for row in rows[one]] for one, size in sizes.items() if one in rows}
        for kind, rows in timed.items()
    }
    theirs = cells(
        (kind, sizes[iteration], from_cell("ppo_table_2", f"{benchmark}, {library}, {name}", column), library)
        for library, column, iteration in columns
        for kind, name in PLATFORMS.items()
    )
    return DeviceTable(
        f"{benchmark}, {others}",
        "inferences (IPS)",
        ours,
        MISSING,
        list(sizes.values()),
        theirs,
        along=ALONG[letter],
        drawn=letter == "M",
    )


def _entry(row: Any, iteration: PpoIteration) -> Entry:
    how = row.backend
    if row.parameters.design_mhz:
        how += f" in virtual time, at {row.parameters.design_mhz:g} MHz"
    return Entry(scaled(rate(row, how), iteration.samples, "IPS"), how)
