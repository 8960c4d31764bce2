"""A console that cuts nothing on a narrow screen: a table that does not fit becomes a list."""

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

WIDE = 160
"""Columns of a file or a pipe, unless COLUMNS says otherwise; from here on nothing is narrow."""


class Screen(Console):
    """A console that prints whole words, and no line that is wider than the screen unless a single word is."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print texts and tables as `Console.print` does; on a narrow screen each on lines of its own."""
        if self.width >= WIDE:
            super().print(*objects, **options)
            return
        for one in objects:
            if isinstance(one, Table) and self._is_whole(one):
                super().print(one, **options)
                continue
            lines = as_list(one) if isinstance(one, Table) else str(one).split("\n")
            super().print(
                "\n".join(wrapped(line, self.width) for line in lines), soft_wrap=True, markup=False
            )

    def markdown(self, lines: Iterable[str]) -> None:
        """Print lines of Markdown; on a narrow screen its tables are printed as others are."""
        table: Table | None = None
        for line in lines:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if self.width >= WIDE or not line.startswith("|"):
                if table is not None:
                    self.print(table)
                table = None
                self.print(line, markup=False, highlight=False, soft_wrap=True)
            elif table is None:
                table = Table(*cells, box=None, padding=(0, 1, 0, 0))
            elif set(line) - set("|:- "):
                table.add_row(*cells)
        if table is not None:
            self.print(table)

    def _is_whole(self, table: Table) -> bool:
        """Return whether a table fits into the screen with no word of it cut."""
        lines = ["".join(part.text for part in line) for line in self.render_lines(table, pad=False)]
        shown = {word for line in lines for word in line.split()}
        cells = (str(cell) for column in table.columns for cell in (column.header, *column.cells))
        return max(map(len, lines), default=0) <= self.width and shown.issuperset(" ".join(cells).split())


def as_list(table: Table) -> Iterator[str]:
    """Yield a table as lines: its title, then for each row the first cell, and the others with their columns' names."""
    if table.title:
        yield str(table.title)
    names = [str(column.header) if table.show_header else "" for column in table.columns]
    for row in zip(*(column.cells for column in table.columns), strict=True):
        first, *others = map(str, row)
        said = [
            f"{name}: {cell}" if name else cell for name, cell in zip(names[1:], others, strict=True) if cell
        ]
        yield first
        if said:
            yield f"  {'; '.join(said)}"
    if table.caption:
        yield str(table.caption)


def wrapped(line: str, width: int) -> str:
    """Return a line broken between words, with the following lines indented a little more than the first."""
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(
        line, width, subsequent_indent=f"{indent}  ", break_long_words=False, break_on_hyphens=False
    )
