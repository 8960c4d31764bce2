"""Storage in a device's memory: one transfer per insertion, and batches that stay on the device."""

from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from placerl.primitives.device import Buffer, Device, Event, Stream
from placerl.primitives.one_caller import OwnProcessLock
from placerl.primitives.replay.device.packed_rows import PackedRows, Place, kernel_source
from placerl.primitives.replay.storage import FieldSpec, Storage, as_indices

_OF_THE_PROCESS = frozenset(
    [
        "_lock",
        "_tables",
        "_pending",
        "_reads",
        "_identity",
        "_identity_size",
        "_packed",
        "_rows",
        "_whole",
        "_whole_table",
        "_stream",
        "_streams",
        "_gather",
    ]
)
"""Attributes of a `DeviceStorage` that a pickle leaves out: `_allocate_columns` creates them."""


class DeviceBatch(Mapping[str, npt.NDArray]):
    """A sampled batch in a device's memory.

    A learner in the same memory reads the batch there (`read_into`). All other code uses it as a mapping from column
    names to arrays (B, *shape) on the host; the first access copies all columns there. The batch holds only the
    indices of its items, and reads their rows when they are needed. Before the storage overwrites these rows, it
    copies the items into a buffer of the batch. A pickle or a copy is a dict of the arrays on the host.

    Attributes:
        place: identifies the memory (`Device.place`).
        fields: the columns' specifications.
        batch_size: B.
    """

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def __init__(self, storage: "DeviceStorage", batch_size: int) -> None:
        """Allocate the batch's indices; `DeviceStorage.gather` fills it."""
        self._storage, self.batch_size = storage, batch_size
        self.place, self.fields = storage.device.place, storage.fields
        self._indices = storage.device.allocate(max(1, batch_size) * np.dtype(np.int64).itemsize)
        self._kept: Any = None
        self._is_kept = self._is_filled = False
        self._started: dict[Any, Event] = {}  # after the last gather of each stream
        self._host: dict[str, npt.NDArray] | None = None

    def __reduce__(self) -> tuple[type, tuple]:
        return dict, (dict(self),)

    def __getitem__(self, name: str) -> npt.NDArray:
        if name not in self.fields:
            raise KeyError(name)
        if self._host is None:
            self._host = self._storage.download(self)
        return self._host[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def bounds(self, name: str) -> tuple[float, float]:
        """Return the smallest and the largest value that was ever inserted into a column of the storage.

        A bound is NaN or infinite if an inserted value was.
        """
        return self._storage.bounds[name]

    def copy(self) -> None:
        """Copy the items into the batch's own buffer on the device, and wait until this is done.

        Benchmarks call it to time a gather on the device.
        """
        self._storage.copy(self)

    def read_into(
        self, target: Buffer, places: Mapping[str, Place], stream: Stream | int | None = None
    ) -> None:
        """Start to copy some columns into a learner's memory on the same device.

        Args:
            target: a buffer, or a learner's memory.
            places: by column name, where in the target the column is written, as contiguous (B, *shape).
            stream: the learner's stream, in whose order the copy runs, or its address if it is of another library;
                None for the storage's own.

        Raises:
            TypeError: a place's dtype is neither the column's own nor float32 for a column of bool.
            ValueError: nothing was gathered into this batch yet.
        """
        self._storage.read(self, target, places, stream)


class DeviceStorage(Storage):
    """A `Storage` whose items are in a device's memory: a ring of rows, first in, first out.

    `gather` returns a `DeviceBatch`, or fills arrays on the host. One thread may insert while another reads batches.
    A pickle holds the items, and is restored to the device of the same kind and number; a deep copy shares the device,
    but no row.

    Attributes:
        bounds: by column, the smallest and the largest value that was ever inserted; NaN or infinite if an inserted
            value was.
    """

    on_host = False

    def __init__(self, capacity: int, fields: Mapping[str, FieldSpec], device: Device) -> None:
        """Allocate the rows.

        Raises:
            MemoryError: the device has no room for them.
        """
        self.device = device
        super().__init__(capacity, fields)
        self.bounds: dict[str, tuple[float, float]] = {
            name: (np.inf, -np.inf) if np.dtype(field.dtype).kind in "biuf" else (np.nan, np.nan)
            for name, field in self.fields.items()
        }

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in _OF_THE_PROCESS}

    def _allocate_columns(self) -> None:
        self._lock = OwnProcessLock("DeviceStorage")
        self._tables: dict[tuple[tuple[str, Place], ...], tuple[Any, int, int]] = {}
        self._pending: WeakSet[DeviceBatch] = WeakSet()
        self._reads: dict[Any, Event] = {}  # after the last one of each stream
        self._stream = self.device.stream()
        self._streams: dict[int, Stream] = {}  # those of other libraries, by address
        self._gather = self.device.kernels(kernel_source())["gather_rows"]
        self._identity: Any = None
        self._identity_size = 0
        self._packed = PackedRows(self.fields)
        self._rows = self.device.allocate(self.capacity * self._packed.row_bytes)
        self._whole = self._packed.whole()
        self._whole_table = self._uploaded(self._whole.values)

    def _uploaded(self, values: npt.NDArray) -> Buffer:
        """Return a buffer that kernels on any stream may read."""
        buffer = self._stream.uploaded(values)
        self._stream.finish()
        return buffer

    @property
    def columns(self) -> dict[str, npt.NDArray]:  # type: ignore[override]
        """Copies of the columns on the host, each (capacity, *shape), 0 where there is no item. The copy is slow."""
        columns = {
            name: np.zeros((self.capacity, *field.shape), field.dtype) for name, field in self.fields.items()
        }
        for name, column in self.held_columns(self.size).items():
            columns[name][: self.size] = column
        return columns

    def held_columns(self, size: int) -> dict[str, npt.NDArray]:
        with self._lock:
            held_bytes = size * self._packed.row_bytes
            rows = self._stream.download(self._rows, held_bytes, np.uint8)
        return self._packed.unpack(rows)

    def restore_columns(self, columns: Mapping[str, npt.NDArray]) -> None:
        if len(next(iter(columns.values()))):
            self._write_rows(columns, 0)

    def _write_rows(self, arrays: Mapping[str, npt.NDArray], cursor: int) -> None:
        """Write packed rows from row `cursor` on, in one transfer, or two at the ring's end."""
        rows = self._packed.pack(arrays)
        until_end = min(len(rows), self.capacity - cursor)
        overwrites = cursor < self.size or until_end < len(rows)
        with self._lock:
            for name, array in arrays.items():
                if array.size and array.dtype.kind in "biuf":
                    least, most = self.bounds[name]
                    # NaN spreads; infinity stays a bound that is not finite.
                    self.bounds[name] = (
                        float(np.minimum(least, array.min())),
                        float(np.maximum(most, array.max())),
                    )
            if overwrites:
                for batch in list(self._pending):
                    self._keep(batch)
                for started in self._reads.values():
                    started.wait()
                self._reads.clear()
            self._stream.upload(self._rows, rows[:until_end], cursor * self._packed.row_bytes)
            if until_end < len(rows):
                self._stream.upload(self._rows, rows[until_end:])

    def write(self, arrays: Mapping[str, npt.NDArray], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        self._write_rows(arrays, self.cursor)
        self.count_written(len(rows))
        return rows

    def gather(self, indices: npt.ArrayLike, out: Mapping[str, npt.NDArray] | None = None) -> Any:
        """Return the items at the given rows.

        Args:
            indices: (B,) integers in [0, size).
            out: a `DeviceBatch` of this storage with batch size B, or arrays (B, *shape) on the host by column name;
                by default a new `DeviceBatch`.

        Returns:
            The `DeviceBatch`, or the filled arrays.
        """
        rows = as_indices(indices, self.size)
        if out is not None:
            self.check_out(out, len(rows))
        batch = out if isinstance(out, DeviceBatch) else DeviceBatch(self, len(rows))
        with self._lock:
            for started in batch._started.values():  # which may still read the indices
                started.wait()
            batch._started.clear()
            self._stream.upload(batch._indices, rows)
            batch._is_kept, batch._host, batch._is_filled = False, None, True
            self._pending.add(batch)
        if out is None or batch is out:
            return batch
        for name, array in out.items():
            array[...] = batch[name]
        return dict(out)

    def check_out(self, out: Mapping[str, npt.NDArray], batch_size: int) -> None:
        """Check that a batch can be passed to `gather` as `out`.

        Args:
            out: a `DeviceBatch`, or arrays on the host by column name.
        """
        if not isinstance(out, DeviceBatch):
            super().check_out(out, batch_size)
        elif out._storage is not self or out.batch_size != batch_size:
            raise ValueError(
                f"out: found a batch of shape {out.batch_size}; allowed: {batch_size} items of this storage"
            )

    def release(self, batch: Mapping[str, npt.NDArray]) -> None:
        """Say that a batch will not be read again before `gather` fills it again.

        Its items are then not copied when the storage overwrites them, and reading it raises ValueError.

        Args:
            batch: a batch that `gather` returned; arrays on the host need no release.
        """
        if isinstance(batch, DeviceBatch):
            with self._lock:
                self._pending.discard(batch)
                batch._is_filled, batch._host = False, None

    def allocate(self, batch_size: int) -> Any:
        """Return an empty `DeviceBatch` of this size, which `gather` can fill."""
        return DeviceBatch(self, batch_size)

    def read(
        self,
        batch: DeviceBatch,
        target: Buffer,
        places: Mapping[str, Place],
        stream: Stream | int | None,
    ) -> None:
        """Start to copy columns of a batch into a learner's memory on the same device.

        Args:
            target, places, stream: as `DeviceBatch.read_into`.
        """
        self._require_filled(batch)
        with self._lock:
            table = self.table(places)
            if isinstance(stream, int):
                if stream not in self._streams:
                    self._streams[stream] = self.device.stream_at(stream)
                stream = self._streams[stream]
            self._start(batch, self.device.adopted(target), *table, stream)

    def table(self, places: Mapping[str, Place]) -> tuple[Buffer, int, int]:
        """Return the table of some columns on the device, its columns, and the work items of a row."""
        key = tuple(places.items())
        with self._lock:
            if key not in self._tables:
                table = self._packed.table(places)
                self._tables[key] = self._uploaded(table.values), len(table.values), table.units
            return self._tables[key]

    def launch_gather(
        self, stream: Stream, indices: Buffer, count: int, target: Buffer, places: Mapping[str, Place]
    ) -> None:
        """Start to copy columns of rows whose indices are on the device.

        While a graph is recorded, call `table` before, which copies to the device.
        The storage does not know when the rows are read: finish this work before items are inserted.

        Args:
            indices: (B,) int64, rows in [0, size).
            target, places: as `DeviceBatch.read_into`.
        """
        self._launch(stream, self._rows, indices, count, target, *self.table(places))

    @property
    def rows(self) -> Buffer:
        """The packed rows (`PackedRows`), for kernels that write transitions: they call `count_written`."""
        return self._rows

    def count_written(self, count: int) -> None:
        """Count rows that work on the device writes from the cursor on, of which the host knows nothing else.

        That work and the storage's other calls must be made to wait for each other by the caller.
        """
        self.cursor = (self.cursor + count) % self.capacity
        self.size = min(self.capacity, self.size + count)

    def _launch(
        self,
        stream: Stream,
        rows: Buffer,
        indices: Buffer,
        count: int,
        target: Buffer,
        table: Buffer,
        columns: int,
        units: int,
    ) -> None:
        """Start to copy columns of `count` rows, with `units` work items for each row."""
        row_bytes = np.int64(self._packed.row_bytes)
        written = table, np.int32(columns), np.int64(units), target, np.int64(count)
        stream.launch(self._gather, units * count, rows, row_bytes, indices, *written)

    def _start(
        self, batch: DeviceBatch, target: Buffer, table: Buffer, columns: int, units: int, stream: Any
    ) -> None:
        """Start to copy columns of a batch's rows, or of the batch's own copy of them."""
        if not units * batch.batch_size:
            return
        rows, indices = self._rows, batch._indices
        if batch._is_kept:
            rows, indices = batch._kept, self._first(batch.batch_size)
        used = stream or self._stream
        self._launch(used, rows, indices, batch.batch_size, target, table, columns, units)
        batch._started[stream] = self._reads[stream] = used.event()

    def _first(self, count: int) -> Any:
        """Return the indices 0 to `count` - 1, of a batch's own rows."""
        if self._identity_size < count:
            self._identity, self._identity_size = self._uploaded(np.arange(count)), count
        return self._identity

    def _keep(self, batch: DeviceBatch) -> None:
        """Copy a batch's rows into its own buffer, before they are overwritten."""
        self._pending.discard(batch)
        if batch._kept is None:
            batch._kept = self.device.allocate(max(1, batch.batch_size) * self._packed.row_bytes)
        self._start(batch, batch._kept, self._whole_table, 1, self._whole.units, None)
        if None in batch._started:  # a learner's stream does not wait for the storage's own
            batch._started[None].wait()
        batch._is_kept = True

    def copy(self, batch: DeviceBatch) -> None:
        """Copy a batch's items into the batch's own buffer on the device, unless this has been done.

        The call waits until the copy is done.
        """
        self._require_filled(batch)
        with self._lock:
            if not batch._is_kept:
                self._keep(batch)

    @staticmethod
    def _require_filled(batch: DeviceBatch) -> None:
        if not batch._is_filled:
            raise ValueError("batch: found nothing gathered into it; allowed: one that `gather` filled")

    def download(self, batch: DeviceBatch) -> dict[str, npt.NDArray]:
        """Return a batch's columns as new arrays on the host.

        Raises:
            ValueError: nothing was gathered into this batch yet.
        """
        self.copy(batch)
        with self._lock:
            size_bytes = batch.batch_size * self._packed.row_bytes
            rows = self._stream.download(batch._kept, size_bytes, np.uint8)
        return self._packed.unpack(rows)
