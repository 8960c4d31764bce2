"""What the five papers say, as numbers with their source: the files of `results/papers/`.

`<paper>_table_<number>.csv` holds a table cell by cell; `<paper>_figure_<number>.csv` what was read off a figure, with
its reading error; `text.csv` the numbers of the running text. A cell that the text lost has no value and says so in its
note; what only a lost figure showed is not here.
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "results" / "papers"


@dataclass(frozen=True)
class Cell:
    """One cell of a published table, or one value of a figure.

    Attributes:
        source: paper and table, such as "MAP Table VII".
        row: heading of its row.
        column: heading of its column.
        printed: what the paper prints.
        value: the number in it, in `unit`; None for words and for a cell that the text lost.
        unit: unit of the value.
        note: how the cell was read, where that needs saying.
        reading_error: how far a value that was measured in a figure can be off, in `unit`; 0 where it is printed.
    """

    source: str
    row: str
    column: str
    printed: str
    value: float | None
    unit: str
    note: str
    reading_error: float = 0.0

    @property
    def place(self) -> str:
        """Where it stands, for a reader to look it up."""
        return f"{self.source}, row {self.row}, column {self.column}"


@dataclass(frozen=True)
class Quantity:
    """One number of a paper's running text.

    Attributes:
        key: name of the number, such as "MAP.optimum_gap".
        paper: key of the paper.
        place: sections that give it.
        quantity: what is counted or measured.
        value: the number, in `unit`.
        unit: unit of the value; "ratio" for times as much, "1" for a bare number.
        words: what it says, in short.
    """

    key: str
    paper: str
    place: str
    quantity: str
    value: float
    unit: str
    words: str

    @property
    def source(self) -> str:
        """Paper and section."""
        return f"{self.paper} {self.place}"


class Table:
    """One published table; a cell is found by its row and column."""

    def __init__(self, cells: tuple[Cell, ...]) -> None:
        self.cells = cells
        self._by_place = {(cell.row, cell.column): cell for cell in cells}
        if len(self._by_place) != len(cells):
            raise ValueError(f"{cells[0].source}: two cells have the same row and column")

    def cell(self, row: str, column: str) -> Cell:
        """The cell of that row and column; KeyError if the table has none."""
        return self._by_place[row, column]

    def value(self, row: str, column: str) -> float:
        """The number in a cell.

        Raises:
            KeyError: the table has no such cell.
            ValueError: the cell holds no number.
        """
        found = self.cell(row, column)
        if found.value is None:
            raise ValueError(
                f"{found.place}: found {found.printed or found.note!r}; allowed: a cell with a number"
            )
        return found.value


def _rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, strict=True))


def table_names() -> list[str]:
    """Names of the tables that were transcribed, such as "map_table_3"."""
    return sorted(path.stem for path in FOLDER.glob("*_table_*.csv"))


def figure_names() -> list[str]:
    """Return the names of the figures whose values were transcribed, such as "fix_figure_8"."""
    return sorted(path.stem for path in FOLDER.glob("*_figure_*.csv"))


@cache
def table(name: str) -> Table:
    """The table, or the figure, of that name; FileNotFoundError if there is none."""
    return Table(
        tuple(
            Cell(
                source=row["source"],
                row=row["row"],
                column=row["column"],
                printed=row["printed"],
                value=float(row["value"]) if row["value"] else None,
                unit=row["unit"],
                note=row["note"],
                reading_error=float(row.get("reading_error") or 0.0),
            )
            for row in _rows(f"{name}.csv")
        )
    )


@cache
def text() -> dict[str, Quantity]:
    """The numbers of the running text of all five papers, by key."""
    quantities = {
        row["key"]: Quantity(
            key=row["key"],
            paper=row["paper"],
            place=row["place"],
            quantity=row["quantity"],
            value=float(row["value"]),
            unit=row["unit"],
            words=row["words"],
        )
        for row in _rows("text.csv")
    }
    if len(quantities) != len(_rows("text.csv")):
        raise ValueError("text.csv: two rows have the same key")
    return quantities


def quantity(key: str) -> Quantity:
    """The number of that key; KeyError if there is none."""
    return text()[key]
