"""Holds what the benchmarks share: their options, the run that stores their rows, and their table."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report, bar
from placerl.harness.core.row import Row
from placerl.harness.plan import tiers
from placerl.harness.plan.plan import measure_now
from placerl.harness.plan.predicting import begin
from placerl.harness.report.files import write_atomically
from placerl.harness.report.text_tables import TextTable, as_markdown
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Run

Measure = Callable[[Report], Sequence[Row]]

OutOption = Annotated[Path, typer.Option("--out", help="Folder of the table.")]
TierOption = Annotated[str, typer.Option("--tier", help="Tier of the run that the rows are stored with.")]


@dataclass(frozen=True)
class Session:
    """One execution of a benchmark: stores its rows and writes its table.

    Attributes:
        run: the part of the store, the database of results, that gets the rows.
        out: output folder of the table.
    """

    run: Run
    out: Path

    @classmethod
    def begin(cls, out: Path, results: Path, tier: str) -> "Session":
        """Open the store of results and check the output folder, so that a mistake is reported before the measurement.

        Args:
            out: output folder of the table; created if it does not exist.
            results: folder of the store, a database.
            tier: "quick", "standard" or "full": the run of this tier gets the rows.

        Raises:
            UserError: there is no such tier, or a store or folder cannot be written.
        """
        chosen = tiers.tier(tier)
        try:
            out.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=out):
                pass  # the table itself is written after the measurement, which may take hours
        except OSError as error:
            raise UserError(out, "--out", error.strerror, "a folder that can be written") from error
        return cls(begin(results, chosen), out)

    def measure(self, key: str, measure: Measure) -> Sequence[Row]:
        """Measure something with a progress bar, store the rows and return them.

        Args:
            key: name under which the rows are stored together, such as `bench-replay/1048576`.
            measure: does the work and returns the rows; gets a function to call with the progress.
        """
        with bar(key) as report:
            return measure_now(self.run, Cell(key, 0, lambda _, inner: measure(inner)), report)

    def write(self, text: str) -> None:
        """Print the table, and write it to `table.md` in the folder `out`.

        Args:
            text: the table in Markdown.

        Raises:
            UserError: the folder cannot be written any more.
        """
        typer.echo(text)
        self.save(text)

    def save(self, text: str) -> Path:
        """Write the table to `table.md` in the folder `out`, and return the file's path.

        Args:
            text: the table in Markdown.

        Raises:
            UserError: the folder cannot be written any more.
        """
        path = self.out / "table.md"
        write_atomically(path, lambda target: target.write_text(text, encoding="utf-8"))
        return path


def numbers(option: str, text: str) -> list[int]:
    """Return the positive integers of a comma-separated list.

    Args:
        option: the option that the list was given with, such as `--threads`.
        text: the list.

    Raises:
        UserError: an entry is not an integer, or below 1.
    """
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not part.isdecimal() or int(part) < 1:
            allowed = "whole numbers of at least 1, separated by commas"
            raise UserError("command line", option, repr(part), allowed)
    return [int(part) for part in parts]


def chosen(option: str, text: str, allowed: Sequence[str]) -> list[str]:
    """Return the names of a comma-separated list, which is empty if the text is `none`.

    Args:
        option: the option that the list was given with, such as `--peers`.
        text: the list.
        allowed: the names that it may contain.

    Raises:
        UserError: a name is not in `allowed`.
    """
    names = [] if text == "none" else [part.strip() for part in text.split(",")]
    for name in names:
        if name not in allowed:
            raise UserError("command line", option, repr(name), f"{', '.join(allowed)}, none", name=name)
    return names


def not_run(reason: str) -> None:
    """Print why nothing can be measured here, and exit with status 1; does nothing if the reason is empty.

    Args:
        reason: why the benchmark cannot run on this machine.
    """
    if reason:
        typer.echo(f"not run: {reason}", err=True)
        raise typer.Exit(1)


def joined(values: Sequence[object]) -> str:
    """Return values as one text, separated by commas, for the default of an option that takes such a list."""
    return ",".join(map(str, values))


def section(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table with a title as lines of Markdown, the last of which is empty.

    Args:
        title: the title.
        columns: the names of the columns.
        rows: the text of each cell, row by row.
    """
    cells = tuple(map(tuple, rows))
    made = TextTable("table", title, tuple(columns), cells, "placerl bench")
    return [*as_markdown(made).splitlines(), ""]
