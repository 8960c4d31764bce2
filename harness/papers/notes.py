"""Reads the notes on the papers: statements that no experiment can decide, so that they are no claims.

They are about the papers' printed arithmetic, numbers that contradict each other, and sizes that are printed wrongly. A
paper's folder holds them in `notes.toml`.
"""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from placerl.harness.papers import discovery


@dataclass(frozen=True)
class Note:
    """A note on a statement of a paper that no experiment can decide.

    Attributes:
        key: such as "PAL-VI-H"; begins with the paper's key.
        place: place in the paper, without the paper's key.
        sentence: what the statement says, and what follows from the paper's own numbers.
        computed: numbers that follow from the published ones, by their name with its unit; may be empty.
    """

    key: str
    place: str
    sentence: str
    computed: dict[str, float] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """Return the paper's key and the place in the paper, such as "PAL VI-H against IV-C5"."""
        return f"{self.key.partition('-')[0]} {self.place}"

    @property
    def numbers(self) -> str:
        """Return the computed numbers as text, or "–"."""
        return "; ".join(f"{name}: {value:,.15g}" for name, value in self.computed.items()) or "–"


def notes() -> list[Note]:
    """Return the notes on all papers, paper by paper in the order of a report.

    Raises:
        TypeError: a note in a `notes.toml` has an unknown field, or lacks one.
    """
    files = [Path(package.__path__[0], "notes.toml") for package in discovery.packages()]
    return [
        Note(**note)
        for file in files
        if file.exists()
        for note in tomllib.loads(file.read_text(encoding="utf-8"))["notes"]
    ]
