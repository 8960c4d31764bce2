"""Data storage: the transitions, stored as a structure of arrays (MAP II-A3).

One array per column keeps each column's own dtype (uint8 frames stay uint8). A sampled batch is gathered column
by column into arrays that a learner can use directly.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from placerl.primitives.replay.checks import cast
from placerl.primitives.replay.whole_copy import CopiedWhole
from placerl.primitives.sum_tree.base import checked_integer

_INT64, _UINT64 = np.dtype(np.int64), np.dtype(np.uint64)


@dataclass(frozen=True)
class FieldSpec:
    """One column of the storage.

    Attributes:
        shape: shape of one item in this column; `()` for a scalar.
        dtype: NumPy dtype of fixed size; Python objects are refused, because a snapshot could hold them only with
            pickle.
    """

    shape: tuple[int, ...]
    dtype: npt.DTypeLike


def transition_fields(
    observation: FieldSpec, action: FieldSpec, *, discount: bool = False
) -> dict[str, FieldSpec]:
    """Return the columns of a transition.

    Args:
        observation: column of observations; the column of next observations is the same.
        action: column of actions: `FieldSpec((), int64)` for discrete ones, `FieldSpec((n,), float32)` for
            continuous ones.
        discount: whether to add the column that n-step returns need (`primitives.replay.n_step`).

    Returns:
        Columns `observation`, `action`, `reward` (float32), `next_observation`, `terminated` (bool; a truncated
        episode is not a terminated one) and, with `discount`, `discount` (float32).
    """
    fields = {
        "observation": observation,
        "action": action,
        "reward": FieldSpec((), np.float32),
        "next_observation": observation,
        "terminated": FieldSpec((), np.bool_),
    }
    if discount:
        fields["discount"] = FieldSpec((), np.float32)
    return fields


def as_indices(indices: npt.ArrayLike, limit: int) -> npt.NDArray[np.int64]:
    """Return `indices` as a contiguous (B,) int64 array, checked to be in [0, limit).

    Raises:
        TypeError: not integers.
        ValueError: not one-dimensional, or an index out of range.
    """
    array = np.asarray(indices)
    # The usual case. Viewed as unsigned, a negative index is above every limit: one pass checks both bounds.
    usual = array.dtype is _INT64 and array.ndim == 1 and array.flags.c_contiguous
    if usual and (not array.size or np.maximum.reduce(array.view(_UINT64)) < limit):
        return array
    if array.dtype.kind not in "iu":
        raise TypeError(f"indices: found dtype {array.dtype}; allowed: integers")
    if array.ndim != 1:
        raise ValueError(f"indices: found shape {array.shape}; allowed: (B,)")
    if array.size and (array.min() < 0 or array.max() >= limit):
        raise ValueError(f"indices: found {array.min()} to {array.max()}; allowed: 0 to {limit - 1}")
    return np.ascontiguousarray(array, np.int64)


class Storage(CopiedWhole):
    """A ring of items, first in first out, one array per column.

    The columns hold exactly the raw data (capacity times the bytes of one item) and nothing else. The operating
    system fills them with zeros on first touch, so a storage takes physical memory only as it fills up. A pickle or a
    copy holds only the rows that hold items.

    Attributes:
        fields: the columns' specifications, by name.
        columns: the columns themselves, each (capacity, *shape). Rows at and above `size` hold no item.
        capacity: number of items that fit.
        size: number of items held.
        cursor: row that the next inserted item takes.
        on_host: whether `columns` are the rows themselves; otherwise they are copies of a device's.
    """

    on_host: ClassVar[bool] = True

    def __init__(self, capacity: int, fields: Mapping[str, FieldSpec]) -> None:
        """Allocate the columns.

        Args:
            capacity: items that fit, at least 1.
            fields: column specifications by name, at least one.

        Raises:
            TypeError: a capacity that is not an integer, a name that is not text, or a dtype that holds Python objects
                or has no fixed size.
            ValueError: a capacity below 1 or no fields.
        """
        self.capacity = checked_integer("capacity", capacity, 1)
        if not fields:
            raise ValueError("fields: found none; allowed: at least one")
        for name, field in fields.items():
            if not isinstance(name, str):
                raise TypeError(f"fields: found the name {name!r}; allowed: text")
            dtype = np.dtype(field.dtype)
            if dtype.hasobject or dtype.itemsize == 0:
                raise TypeError(f"fields[{name!r}]: found dtype {dtype}; allowed: dtypes of fixed size")
        self.fields = dict(fields)
        self._layouts = [(name, field.shape, np.dtype(field.dtype)) for name, field in fields.items()]
        self.size = 0
        self.cursor = 0
        self._allocate_columns()

    def _allocate_columns(self) -> None:
        self.columns = {
            name: np.zeros((self.capacity, *field.shape), field.dtype) for name, field in self.fields.items()
        }

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "columns"}
        return state | {"held": self.held_columns(self.size)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        held = self.__dict__.pop("held")
        self._allocate_columns()
        self.restore_columns(held)

    def __len__(self) -> int:
        return self.size

    @property
    def nbytes(self) -> int:
        """The number of bytes of all columns of a full storage."""
        items = ((prod(field.shape), np.dtype(field.dtype).itemsize) for field in self.fields.values())
        return self.capacity * sum(elements * item_bytes for elements, item_bytes in items)

    def held_columns(self, size: int) -> dict[str, npt.NDArray]:
        """Return the first `size` rows of every column, for a snapshot.

        The result holds views of the columns, or copies if the columns are in a device's memory.
        """
        return {name: column[:size] for name, column in self.columns.items()}

    def restore_columns(self, columns: Mapping[str, npt.NDArray]) -> None:
        """Write the first rows of every column.

        Args:
            columns: the arrays that `held_columns` of this storage or of an equal one returned, maybe after a
                snapshot's rows were read into them. NumPy copies nothing where they are views of the columns.
        """
        for name, column in columns.items():
            self.columns[name][: len(column)] = column

    def checked(self, batch: Mapping[str, npt.ArrayLike]) -> dict[str, npt.NDArray]:
        """Return the batch as arrays that fit the columns, in the columns' order and dtypes.

        Args:
            batch: for each column an array (n, *shape), n from 1 to the capacity.

        Returns:
            The same columns; an array that already has the column's dtype is not copied.

        Raises:
            TypeError: a dtype that does not cast to the column's within its kind (float64 to float32 does,
                float to uint8 does not).
            ValueError: a column missing, unknown, or of another shape; n of 0 or above the capacity; or a number out
                of the column's range.
        """
        if type(batch) is not dict and not isinstance(
            batch, Mapping
        ):  # the first is the usual and the fast case
            raise TypeError(f"batch: found {type(batch).__name__}; allowed: arrays by column name")
        if batch.keys() != self.fields.keys():
            found = sorted(map(str, batch))
            raise ValueError(f"batch: found columns {found}; allowed: exactly {sorted(self.fields)}")
        arrays = {name: np.asarray(batch[name]) for name in self.fields}
        first = next(iter(arrays.values()))
        n = first.shape[0] if first.ndim else 0
        if not 1 <= n <= self.capacity:
            raise ValueError(f"batch: found {n} items; allowed: 1 to {self.capacity} in arrays (n, ...)")
        for name, array in arrays.items():
            field = self.fields[name]
            allowed, dtype = (n, *field.shape), np.dtype(field.dtype)
            if array.shape != allowed:
                raise ValueError(f"batch[{name!r}]: found shape {array.shape}; allowed: {allowed}")
            if array.dtype != dtype:
                arrays[name] = cast(f"batch[{name!r}]", array, dtype)
        return arrays

    def checked_position(self, size: Any, cursor: Any) -> tuple[int, int]:
        """Return a size and cursor read from a file as integers, after checking that they are possible here.

        Raises:
            ValueError: no storage of this capacity has such a size and cursor.
        """
        possible = isinstance(size, int) and isinstance(cursor, int) and 0 <= cursor < self.capacity
        if not possible or not (size == self.capacity or 0 <= size == cursor):
            raise ValueError(
                f"size, cursor: found {size!r}, {cursor!r}; allowed: equal below {self.capacity}, or full"
            )
        return size, cursor

    def next_rows(self, n: int) -> npt.NDArray[np.int64]:
        """Return the rows that the next n items are written to, (n,) int64."""
        return (self.cursor + np.arange(n, dtype=np.int64)) % self.capacity

    def insert(self, batch: Mapping[str, npt.ArrayLike]) -> npt.NDArray[np.int64]:
        """Write items over the oldest rows (first in, first out, MAP II-A3).

        Args:
            batch: for each column an array (n, *shape), n from 1 to the capacity.

        Returns:
            (n,) int64, the rows that were written, in the order of the batch.

        Raises:
            TypeError, ValueError: the batch does not fit the columns (`checked`); nothing is written.
        """
        arrays = self.checked(batch)
        return self.write(arrays, self.next_rows(len(next(iter(arrays.values())))))

    def write(self, arrays: Mapping[str, npt.NDArray], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Write arrays that `checked` returned to rows that `next_rows` returned, without checking them again.

        Args:
            arrays: for each column an array (n, *shape) of its dtype.
            rows: (n,), the next rows.

        Returns:
            The given rows.
        """
        n, cursor = len(rows), self.cursor
        until_end = min(n, self.capacity - cursor)
        for name, array in arrays.items():
            column = self.columns[name]
            column[cursor : cursor + until_end] = array[:until_end]
            if until_end < n:
                column[: n - until_end] = array[until_end:]
        self.cursor = (cursor + n) % self.capacity
        self.size = min(self.capacity, self.size + n)
        return rows

    def gather(
        self, indices: npt.ArrayLike, out: Mapping[str, npt.NDArray] | None = None
    ) -> dict[str, npt.NDArray]:
        """Return copies of the items at the given rows.

        Args:
            indices: (B,) integers in [0, size).
            out: arrays (B, *shape) of the columns' dtypes to write into, C-contiguous, by name; new arrays
                when None.

        Returns:
            For each column an array (B, *shape): those of `out` when given.

        Raises:
            TypeError: indices that are not integers, or an `out` array of another dtype.
            ValueError: an index out of range, or `out` with other columns or shapes.
        """
        rows = as_indices(indices, self.size)
        if out is None:
            out = self.allocate(len(rows))
        else:
            self.check_out(out, len(rows))
        for name, column in self.columns.items():
            # The range is already checked; every other mode makes `take` buffer the whole output.
            column.take(rows, axis=0, out=out[name], mode="clip")
        return dict(out)

    def release(self, batch: Mapping[str, npt.NDArray]) -> None:
        """Say that a batch will not be read again before `gather` fills it again.

        A storage on a device then need not copy the batch's items before it overwrites them. Here it does nothing.

        Args:
            batch: a batch that `gather` returned.
        """

    def check_out(self, out: Mapping[str, npt.NDArray], batch_size: int) -> None:
        """Check that arrays can be passed to `gather` as `out`.

        Raises:
            TypeError: an array of another dtype than its column.
            ValueError: other columns or shapes, or an array that is not C-contiguous or is read-only.
        """
        if out.keys() != self.fields.keys():
            raise ValueError(f"out: found columns {sorted(out)}; allowed: exactly {sorted(self.fields)}")
        for name, item_shape, dtype in self._layouts:
            array, shape = out[name], (batch_size, *item_shape)
            if array.dtype is dtype and array.shape == shape and array.flags.carray:
                continue  # the usual case, with one look at the flags: contiguous, aligned and writeable
            if array.shape != shape or not array.flags.c_contiguous:
                raise ValueError(f"out[{name!r}]: found shape {array.shape}; allowed: C-contiguous {shape}")
            if array.dtype != dtype:
                raise TypeError(f"out[{name!r}]: found dtype {array.dtype}; allowed: {dtype}")
            if not array.flags.writeable:
                raise ValueError(f"out[{name!r}]: found a read-only array; allowed: a writeable one")

    def allocate(self, batch_size: int) -> dict[str, npt.NDArray]:
        """Return uninitialised arrays (batch_size, *shape) by column name, for the argument `out` of `gather`."""
        count = checked_integer("batch_size", batch_size, 0)
        return {name: np.empty((count, *field.shape), field.dtype) for name, field in self.fields.items()}
