"""The layout of rows in a device's memory: a row holds all columns of an item, so that an insertion is one transfer."""

from collections.abc import Mapping
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from placerl.primitives.replay.storage import FieldSpec

WORD_BYTES = 4
ROW_ALIGNMENT_BYTES = 8
WORDS, BYTES, FLAGS = range(3)
"""How the kernel in `gather_rows.h` copies a column: 4 bytes at a time, byte by byte, or from bool to float32."""


def kernel_source() -> str:
    """Return the source of the kernel that gathers sampled rows, in the language that all devices share."""
    return files(__package__).joinpath("gather_rows.h").read_text()


class Place(NamedTuple):
    """Says where the kernel that gathers sampled rows writes a column.

    Of B items it begins at byte `offset_bytes` + B * `item_offset_bytes` of the target, the memory that is written:
    a multiple of the 4 bytes, or of the one, that the kernel copies at a time.

    Attributes:
        offset_bytes: bytes before the column, whatever B is.
        dtype: dtype of the written numbers: the column's own dtype, or float32 for a column of bool.
        item_offset_bytes: bytes before the column for each item of the batch.
    """

    offset_bytes: int
    dtype: np.dtype
    item_offset_bytes: int = 0


class GatherTable(NamedTuple):
    """A table for the kernel that gathers sampled rows: it says which columns are written, and where.

    Attributes:
        values: (columns, 6) int64: the column's first work item, its byte in the row, its place's `offset_bytes` and
            `item_offset_bytes`, its bytes per item in the target, and how it is copied (`WORDS`, `BYTES` or `FLAGS`).
        units: work items per row.
    """

    values: npt.NDArray[np.int64]
    units: int


def _aligned(size_bytes: int, alignment_bytes: int) -> int:
    return -(-size_bytes // alignment_bytes) * alignment_bytes


class PackedRows:
    """The layout of a row: which bytes each column takes.

    Attributes:
        dtype: structured dtype of a row, one field per column.
        row_bytes: bytes of a row, a multiple of 8.
        offsets: by column, its first byte in a row.
    """

    def __init__(self, fields: Mapping[str, FieldSpec]) -> None:
        """Place every column at a multiple of 4 bytes."""
        offsets, end = [], 0
        formats = [(np.dtype(field.dtype), field.shape) for field in fields.values()]
        for dtype, shape in formats:
            offsets.append(end)
            end += _aligned(dtype.itemsize * int(np.prod(shape, dtype=np.int64)), WORD_BYTES)
        self.row_bytes = max(ROW_ALIGNMENT_BYTES, _aligned(end, ROW_ALIGNMENT_BYTES))
        self.dtype = np.dtype(
            {"names": list(fields), "formats": formats, "offsets": offsets, "itemsize": self.row_bytes}
        )
        self.offsets = dict(zip(fields, offsets, strict=True))

    def pack(self, arrays: Mapping[str, npt.NDArray]) -> npt.NDArray[np.uint8]:
        """Return n rows, (n, row_bytes) uint8, from arrays (n, *shape) of the columns' dtypes, by column."""
        rows = np.zeros(len(next(iter(arrays.values()))), self.dtype)
        for name, array in arrays.items():
            rows[name] = array
        return rows.view(np.uint8).reshape(len(rows), self.row_bytes)

    def unpack(self, rows: npt.NDArray[np.uint8]) -> dict[str, npt.NDArray]:
        """Return contiguous arrays (n, *shape) by column from n rows, the inverse of `pack`.

        Args:
            rows: (n, row_bytes) uint8.
        """
        structured = rows.reshape(-1).view(self.dtype)
        return {name: np.ascontiguousarray(structured[name]) for name in self.offsets}

    def table(self, places: Mapping[str, Place]) -> GatherTable:
        """Return the table with which the kernel that gathers sampled rows writes some of the columns.

        Raises:
            TypeError: a place's dtype is neither the column's own nor float32 for a column of bool.
        """
        rows, first = [], 0
        for name, place in places.items():
            own, shape = self.dtype[name].base, self.dtype[name].shape
            elements = int(np.prod(shape, dtype=np.int64))
            item_bytes = elements * place.dtype.itemsize
            if own == np.bool_ and place.dtype == np.float32:
                kind, units = FLAGS, elements
            elif own != place.dtype:
                raise TypeError(f"{name}: found dtype {own}; allowed: {place.dtype}")
            elif item_bytes % WORD_BYTES:
                kind, units = BYTES, item_bytes
            else:
                kind, units = WORDS, item_bytes // WORD_BYTES
            if units:
                places_bytes = place.offset_bytes, place.item_offset_bytes
                rows.append((first, self.offsets[name], *places_bytes, item_bytes, kind))
            first += units
        return GatherTable(np.array(rows, np.int64).reshape(-1, 6), first)

    def whole(self) -> GatherTable:
        """Return the table with which the kernel that gathers sampled rows copies whole rows unchanged."""
        return GatherTable(np.array([[0, 0, 0, 0, self.row_bytes, WORDS]]), self.row_bytes // WORD_BYTES)
