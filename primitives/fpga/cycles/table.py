"""The committed table of clock cycles, which simulations of the hardware counted once for all machines.

Cycles depend on the design alone. `cycles.jsonl` has a line per result: the block, the parameters of its design, the
size of the call, and the result. `designs.json` is its key: for each design a hash of its Verilog, from which the
cycles come, and hashes of the code that it is made of, which are found without making the Verilog.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import cache as remember
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
DESIGNS, CYCLES = "designs.json", "cycles.jsonl"


@dataclass(frozen=True)
class DesignKey:
    """The identity of a design whose cycles are in the table.

    Attributes:
        verilog: hash of its Verilog.
        sources: hash of the code that it is made of.
        reading: hash of the code that simulates it and reads the result.
    """

    verilog: str
    sources: str
    reading: str


@dataclass
class CyclesTable:
    """The results of simulations.

    Attributes:
        designs: the key of each design, by the design's text (`design_text`).
        results: by the design's text and then by the size's text, what the simulation gave.
    """

    designs: dict[str, DesignKey] = field(default_factory=dict)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path = FOLDER) -> "CyclesTable":
        """Return the table in a folder; empty if there is none.

        Raises:
            ValueError: a line is none of a table.
        """
        table = cls()
        if not (folder / DESIGNS).exists():
            return table
        table.designs = {
            name: DesignKey(**key) for name, key in json.loads((folder / DESIGNS).read_text()).items()
        }
        for number, line in enumerate((folder / CYCLES).read_text().splitlines(), 1):
            try:
                block, parameters, size, result = json.loads(line)
            except ValueError as error:
                allowed = "[block, parameters, size, result]"
                raise ValueError(f"{CYCLES}: line {number}: found {line!r}; allowed: {allowed}") from error
            table.add(design_text(block, parameters), size_text(size), result)
        return table

    def write(self, folder: Path = FOLDER) -> None:
        """Write the table to a folder, sorted, so that a change shows as few changed lines."""
        keys = {name: asdict(key) for name, key in sorted(self.designs.items())}
        lines = [
            f"[{design.replace(' ', ', ', 1)}, {size}, {json.dumps(result)}]\n"
            for design, by_size in sorted(self.results.items())
            for size, result in sorted(by_size.items(), key=lambda item: size_order(item[0]))
        ]
        (folder / CYCLES).write_text("".join(lines))
        (folder / DESIGNS).write_text(json.dumps(keys, indent=1) + "\n")

    def add(self, design: str, size: str, result: Any) -> None:
        """Add a result, in the place of an earlier one of the same size."""
        self.results.setdefault(design, {})[size] = result

    def keep(self, designs: Iterable[str]) -> None:
        """Remove all designs but those named."""
        named = set(designs)
        self.designs = {name: key for name, key in self.designs.items() if name in named}
        self.results = {name: by_size for name, by_size in self.results.items() if name in named}

    def of(self, design: str, sizes: Iterable[str]) -> list[Any] | None:
        """Return the results of sizes; None if the table lacks one."""
        known = self.results.get(design, {})
        sizes = list(sizes)
        return [known[size] for size in sizes] if all(size in known for size in sizes) else None


def design_text(block: str, parameters: Any) -> str:
    """Return the text of a design: the block's name in quotes, a space, and its parameters as JSON."""
    return f"{json.dumps(block)} {json.dumps(parameters)}"


def parsed(design: str) -> tuple[str, list[Any]]:
    """Return the block's name and the parameters of a design's text."""
    decoder = json.JSONDecoder()
    name, end = decoder.raw_decode(design)
    return name, json.loads(design[end:])


def size_text(size: Any) -> str:
    """Return the text of a call's size: JSON."""
    return json.dumps(size)


def size_order(size: str) -> list[tuple[bool, Any]]:
    """Return by what sizes are sorted, for `sorted`: numbers by their value, whatever holds them.

    Args:
        size: the text of a size.
    """
    key: list[tuple[bool, Any]] = []

    def flatten(value: Any) -> None:
        if isinstance(value, list | dict):
            for one in value.values() if isinstance(value, dict) else value:
                flatten(one)
        else:
            key.append((isinstance(value, str), value))

    flatten(json.loads(size))
    return key


@remember
def committed() -> CyclesTable:
    """Return the committed table, read once."""
    return CyclesTable.read()
