"""Reads the five papers' numbers and their sources from the files of `results/papers/`.

`<paper>_table_<number>.csv` holds a table cell by cell, `<paper>_figure_<number>.csv` the values read off a figure
with their reading errors, and `text.csv` the numbers of the text. A cell that is lost in the available text has no
value, and its note says so; values that only a lost figure showed are not included.
"""

import csv
from dataclasses import dataclass
from functools import cache
from typing import Any

from placerl.harness.core.shipped import shipped

FOLDER = shipped("results", "papers")


@dataclass(frozen=True)
class PublishedCell:
    """One cell of a published table, or one value read off a figure.

    Attributes:
        source: paper and table, such as "MAP Table VII".
        printed: text as printed in the paper.
        value: the number, in `unit`; None for words and for a lost cell.
        unit: unit of the value.
        note: how the cell was read, if that needs an explanation.
        reading_error: largest error of a value read off a figure, in `unit`; 0 if the value is printed.
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
        """Return where the cell is, in words, so that a reader finds it in the paper."""
        return f"{self.source}, row {self.row}, column {self.column}"


@dataclass(frozen=True)
class PublishedQuantity:
    """One number that a paper prints in its text.

    Attributes:
        key: name of the number, such as "MAP.optimum_gap".
        paper: key of the paper, such as "MAP".
        place: sections that state the number.
        quantity: what is counted or measured.
        unit: unit of the value; "ratio" for a factor, "1" for a number without unit.
        words: short description of the number.
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
        """Return the paper's key and the section, such as "MAP VII-D"."""
        return f"{self.paper} {self.place}"


class Table:
    """One published table, or the values read off a figure; a cell is found by the headings of its row and column."""

    def __init__(self, cells: tuple[PublishedCell, ...]) -> None:
        self.cells = cells
        self._by_place = {(cell.row, cell.column): cell for cell in cells}
        if len(self._by_place) != len(cells):
            raise ValueError(f"{cells[0].source}: two cells have the same row and column")

    def cell(self, row: str, column: str) -> PublishedCell:
        """Return the cell with the given headings.

        Raises:
            KeyError: the table has no such cell.
        """
        return self._by_place[row, column]

    def value(self, row: str, column: str) -> float:
        """Return the number in the cell with the given headings.

        Raises:
            ValueError: the cell holds no number.
        """
        cell = self.cell(row, column)
        if cell.value is None:
            raise ValueError(
                f"{cell.place}: found {cell.printed or cell.note!r}; allowed: a cell with a number"
            )
        return cell.value


def _rows(name: str) -> list[dict[str, Any]]:
    with (FOLDER / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, strict=True))


@cache
def table(name: str) -> Table:
    """Return a published table, or the values read off a figure, by its name.

    Raises:
        FileNotFoundError: there is no such table or figure.
    """
    return Table(
        tuple(
            PublishedCell(
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
def text() -> dict[str, PublishedQuantity]:
    """Return the numbers that the five papers print in their text, by key, such as "MAP.optimum_gap"."""
    quantities = {
        row["key"]: PublishedQuantity(**row | {"value": float(row["value"])}) for row in _rows("text.csv")
    }
    if len(quantities) != len(_rows("text.csv")):
        raise ValueError("text.csv: two rows have the same key")
    return quantities


def quantity(key: str) -> PublishedQuantity:
    """Return a number that a paper prints in its text.

    Raises:
        KeyError: there is no such number.
    """
    return text()[key]
