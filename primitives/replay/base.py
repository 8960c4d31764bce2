"""The interface of every replay buffer."""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from placerl.primitives.one_caller import OwnProcess
from placerl.primitives.replay import snapshot
from placerl.primitives.replay.storage import Storage
from placerl.primitives.replay.whole_copy import CopiedWhole
from placerl.primitives.sum_tree.base import checked_flag, checked_generator, checked_integer

EMPTY = "sample: found no item to draw; allowed: at least one in the replay buffer"
"""The message of every replay that has nothing to draw; `concurrent_replay.hpp` has it for the native loops."""

_SNAPSHOT_FORMAT = 1
_COLUMN = "column/"
_INT64, _FLOAT32 = np.dtype(np.int64), np.dtype(np.float32)


class PriorityTree(Protocol):
    """The part of a sum tree's interface that prioritised replay uses.

    `primitives.sum_tree.SumTree` documents its methods `sample`, `update` and `get`, and its properties `total`
    and `capacity`.
    """

    @property
    def capacity(self) -> int: ...

    @property
    def total(self) -> float: ...

    def sample(
        self, batch_size: int, rng: np.random.Generator, stratified: bool = False
    ) -> npt.NDArray[np.int64]: ...

    def update(self, indices: npt.NDArray[np.int64], priorities: npt.NDArray[np.floating]) -> None: ...

    def get(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.floating]: ...


class Sample(NamedTuple):
    """A sampled batch.

    Attributes:
        indices: (B,) int64, the items' rows in the storage, as `update_priorities` takes them.
        weights: (B,) float32 importance weights.
        batch: the columns by name, each (B, *shape). If the storage is in a device's memory, this is a
            `primitives.replay.device.DeviceBatch`.
    """

    indices: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]
    batch: Mapping[str, npt.NDArray]


class Contents(NamedTuple):
    """What a replay holds at one moment.

    Attributes:
        size: number of items.
        cursor: row of the next item.
        columns: the first `size` rows of every column, by name.
        arrays: other arrays (size, ...), by name.
        state: other state, values that JSON can hold.
    """

    size: int
    cursor: int
    columns: dict[str, npt.NDArray]
    arrays: dict[str, npt.NDArray]
    state: dict[str, Any]


class Replay(CopiedWhole, OwnProcess, ABC):
    """A replay buffer: a storage and a rule for sampling its items.

    A replay belongs to one process: a copy made by a fork, whose priorities would be updated but never sampled, raises
    RuntimeError when it is used.

    `pickle`, also in another process, and `copy.deepcopy` make an independent replay that continues with the same
    items, probabilities and draws; `copy.copy` raises TypeError. Unpickling runs code: for a file from someone else
    there is `load`.

    Attributes:
        storage: the data.
    """

    storage: Storage
    _kind: ClassVar[str]

    def __init__(self, storage: Storage) -> None:
        super().__init__()
        self.storage = storage

    def __getstate__(self) -> dict[str, Any]:
        self._check_process()
        return {name: value for name, value in self.__dict__.items() if name != "_own_process"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        OwnProcess.__init__(self)
        self.__dict__.update(state)

    @abstractmethod
    def insert(self, batch: Mapping[str, npt.ArrayLike]) -> npt.NDArray[np.int64]:
        """Insert items, replacing the oldest ones when the storage is full.

        Args:
            batch: for each column of the storage an array (n, *shape), n from 1 to the capacity.

        Returns:
            (n,) int64, the rows that were written.

        Raises:
            TypeError, ValueError: a batch that does not fit the storage (`Storage.checked`); state unchanged.
        """

    @abstractmethod
    def sample(
        self,
        batch_size: int,
        rng: np.random.Generator,
        *,
        stratified: bool = False,
        out: Sample | None = None,
    ) -> Sample:
        """Draw items with replacement.

        Args:
            batch_size: B, at least 1.
            rng: source of all random numbers.
            stratified: whether to cut the distribution into B equal parts and draw one item from each (Schaul et al.
                2015, section 3.3), which has the same expectation and less variance.
            out: arrays to fill, as `allocate` returns them; new arrays if None.

        Returns:
            The batch; `out` if it was given.

        Raises:
            TypeError, ValueError: a batch size that is not an integer of at least 1, an `rng` or `stratified` of
                another type, nothing to sample, or an `out` that does not fit; the state of the replay and of `rng`
                is unchanged. A `ConcurrentReplay` whose priorities are all 0 finds that
                out after it has drawn from `rng`.
        """

    def allocate(self, batch_size: int) -> Sample:
        """Return a `Sample` of uninitialised arrays for `sample` to fill; it can be used again.

        Args:
            batch_size: B, number of items, at least 0.

        Raises:
            TypeError, ValueError: not an integer, or below 0.
        """
        size = checked_integer("batch_size", batch_size, 0)
        return Sample(
            np.empty(size, np.int64),
            np.empty(size, np.float32),
            self.storage.allocate(size),
        )

    @abstractmethod
    def update_priorities(self, indices: npt.ArrayLike, td_errors: npt.ArrayLike) -> None:
        """Set the priorities of items from their new TD errors.

        Args:
            indices: (B,) integers in [0, len); if an index is repeated, its last TD error is kept.
            td_errors: (B,) finite floats, of either sign.

        Raises:
            TypeError, ValueError: wrong dtype, shape or range, NaN or infinity; state unchanged.
        """

    def __len__(self) -> int:
        return self.storage.size

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write items and state to a file, a snapshot, atomically.

        Args:
            path: the file; its folder exists.

        Raises:
            OSError: the file could not be written; an existing file is unchanged.
        """
        self._check_process()
        contents = self._contents()
        metadata = {
            "format": _SNAPSHOT_FORMAT,
            "configuration": self._configuration(),
            "size": contents.size,
            "cursor": contents.cursor,
            "state": contents.state,
        }
        snapshot.write(path, prefixed(contents.columns) | contents.arrays, metadata)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Replace items and state by those of a file that `save` wrote.

        Sampling continues with the same probabilities, and the next items are written to the same rows. No other
        thread may use the replay during the call.

        Args:
            path: snapshot of a replay of the same kind (uniform or prioritised), capacity, columns and alpha.

        Raises:
            OSError: the file cannot be opened; the state is unchanged. If reading fails after the file was
                checked, the replay must not be used any more.
            ValueError: the file is damaged or belongs to another kind of replay; the state is unchanged.
        """
        self._check_process()
        with snapshot.Reader(path) as reader:
            metadata = reader.metadata
            expected = {"format": _SNAPSHOT_FORMAT, "configuration": self._configuration()}
            found = {name: metadata.get(name) for name in expected}
            if found != expected:
                raise ValueError(f"{path}: found {found}; allowed: {expected}")
            size, cursor = self.storage.checked_position(metadata.get("size"), metadata.get("cursor"))
            arrays = {
                name: np.empty((size, *array.shape[1:]), array.dtype)
                for name, array in self._held_arrays(0).items()
            }
            columns = prefixed(self.storage.held_columns(size))
            reader.verify(columns | arrays)
            reader.fill(arrays)
            self._restore(size, cursor, metadata.get("state"), arrays)
            reader.fill(columns)
            self.storage.restore_columns(
                {name.removeprefix(_COLUMN): column for name, column in columns.items()}
            )

    def _contents(self) -> Contents:
        """Return what a snapshot holds. The columns are views of the storage's."""
        size, cursor = self._position()
        arrays = self._held_arrays(size)
        # The state is read after the priorities, which other threads may update: none is above its maximum.
        return Contents(size, cursor, self.storage.held_columns(size), arrays, self._state())

    def _configuration(self) -> dict[str, Any]:
        """What must be equal in the replay that wrote a snapshot and in the replay that loads it."""
        return {"kind": self._kind, "capacity": self.storage.capacity}

    def _position(self) -> tuple[int, int]:
        """Number of items, and the row of the next item."""
        return self.storage.size, self.storage.cursor

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """State for a snapshot, other than that of the storage and the arrays."""

    @abstractmethod
    def _held_arrays(self, size: int) -> dict[str, npt.NDArray]:
        """Arrays (size, ...) for a snapshot, other than the columns."""

    @abstractmethod
    def _restore(self, size: int, cursor: int, state: Any, arrays: Mapping[str, npt.NDArray]) -> None:
        """Restore a snapshot's position, state and arrays; ValueError and no change if that is not possible."""

    def _checked_sampling(
        self, batch_size: int, rng: np.random.Generator, stratified: bool
    ) -> tuple[int, bool]:
        """Return the batch size as an int and `stratified` as a bool, after checking the arguments of `sample`."""
        self._check_process()
        size = checked_integer("batch_size", batch_size, 1, sys.maxsize)
        checked_generator(rng)
        in_parts = checked_flag("stratified", stratified)
        if not len(self):
            raise ValueError(EMPTY)
        return size, in_parts

    def _checked_out(self, out: Sample | None, batch_size: int) -> Sample:
        """Return `out`, checked before any random number is drawn, or new arrays if it is None."""
        if out is None:
            return self.allocate(batch_size)
        if not isinstance(out, Sample):
            raise TypeError(f"out: found {type(out).__name__}; allowed: a Sample that `allocate` returns")
        for name, array, dtype in (("indices", out.indices, _INT64), ("weights", out.weights, _FLOAT32)):
            if not isinstance(array, np.ndarray):
                raise TypeError(f"out.{name}: found {type(array).__name__}; allowed: an array of {dtype}")
            if array.dtype != dtype or array.shape != (batch_size,) or not array.flags.carray:
                found = f"{array.dtype} {array.shape}{'' if array.flags.writeable else ', read-only'}"
                allowed = f"{dtype} {(batch_size,)}, contiguous, aligned and writeable"
                raise ValueError(f"out.{name}: found {found}; allowed: {allowed}")
        self.storage.check_out(out.batch, batch_size)
        return out


def prefixed(columns: Mapping[str, npt.NDArray]) -> dict[str, npt.NDArray]:
    """Return columns by their names in a snapshot, where other arrays have names too."""
    return {_COLUMN + name: column for name, column in columns.items()}


def as_td_errors(td_errors: npt.ArrayLike, batch_size: int) -> npt.NDArray[np.float64]:
    """Return `td_errors` as (batch_size,) float64, checked to be finite.

    Raises:
        TypeError: not real numbers.
        ValueError: another shape, NaN or infinity.
    """
    array = np.asarray(td_errors)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"td_errors: found dtype {array.dtype}; allowed: real numbers")
    if array.shape != (batch_size,):
        raise ValueError(f"td_errors: found shape {array.shape}; allowed: {(batch_size,)} as indices")
    if not np.isfinite(array).all():
        raise ValueError("td_errors: found NaN or infinity; allowed: finite numbers")
    return array.astype(np.float64, copy=False)
