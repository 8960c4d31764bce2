"""Replay whose steps stay on the device: what they launch can be recorded in a graph with a learner's step.

    resident = ResidentPrioritizedReplay(tree, storage, 32, seed=0)
    with resident.stream.recorded() as graph:
        resident.launch_sample(batch)  # indices, weights and rows are on the device
        ...  # the learner writes TD errors on the same stream
        resident.launch_update(td_errors)
    resident.insert(transitions)
    graph.replay()

It draws, updates and inserts as the replay of the same name on the host does, with random numbers from a counter
(`device/philox.h`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from placerl.primitives import checks
from placerl.primitives.device import Buffer, Part, Stream, philox
from placerl.primitives.one_caller import OwnProcess
from placerl.primitives.replay.device.device_storage import DeviceStorage
from placerl.primitives.replay.device.packed_rows import Place


@dataclass(frozen=True)
class ResidentBatch:
    """Where a batch is written.

    Attributes:
        target: a buffer of the device.
        places: by column name, where in the target the column is written, as contiguous (B, *shape).
        weights: where the importance weights are written, (B,) float32.
    """

    target: Buffer
    places: Mapping[str, Place]
    weights: Part


@dataclass(frozen=True)
class Drawn:
    """What is kept of a batch until its priorities are updated.

    Attributes:
        indices: buffer of (B,) int64, its rows.
        written: buffer of one int64, the number of rows inserted before it was drawn.
    """

    indices: Buffer
    written: Buffer


class ResidentReplay(OwnProcess, ABC):
    """Samples, gathers and updates priorities on one stream of a device, without a copy to or from the host.

    Only `insert` and `finish` wait for the device. All calls come from one thread.

    Args:
        storage: the rows, none yet.
        batch_size: B, items per step.
        source: the source of the kernels.
        ahead: D, batches that are drawn before the priorities of the one before are updated.
        seed: which random numbers are drawn, below 2^64.
        stream: the stream of all work; None: a new one.

    Attributes:
        storage, batch_size, ahead, stream: the same.
        key: the key of the random numbers, two words of 32 bits, the lower first.
        step: buffer of one int64, the number of batches drawn so far: the counter of the random numbers.
        written: buffer of one int64, the number of rows inserted so far.
        drawn: the D + 1 batches whose priorities may be missing.

    Raises:
        ValueError: the storage is not empty, or the device has no double precision.
    """

    def __init__(
        self,
        storage: DeviceStorage,
        batch_size: int,
        source: str,
        *,
        ahead: int,
        seed: int,
        stream: Stream | None,
    ) -> None:
        super().__init__()
        checks.whole("ahead", ahead, 0)
        device = storage.device
        if not device.has_double:
            raise ValueError(f"device: found {device.name}; allowed: one with double precision")
        if storage.size:
            raise ValueError("storage: found items; allowed: an empty one")
        self.storage, self.ahead = storage, ahead
        self.stream = stream = stream or device.stream()
        self.key = philox.key_of(seed)
        self.step, self.written = stream.zeros(8), stream.zeros(8)
        self._kernels = device.kernels(source)
        self.resize(batch_size)

    def resize(self, batch_size: int) -> None:
        """Draw batches of another size from now on. The priorities of those drawn before cannot be updated any more.

        Graphs that were recorded before have the old size.
        """
        self.batch_size = batch_size
        zeros = self.stream.zeros
        self.drawn = [Drawn(zeros(batch_size * 8), zeros(8)) for _ in range(self.ahead + 1)]

    def launch_sample(self, batch: ResidentBatch, number: int = 0) -> None:
        """Start to draw the next batch, and to write its rows and weights. Nothing is drawn from an empty storage.

        While a graph is recorded, the storage must have the table of `batch.places` (`DeviceStorage.table`).

        Args:
            number: which of `drawn` it becomes.
        """
        drawn = self.drawn[number]
        self._launch_draw(drawn.indices, batch.weights)
        self.storage.launch_gather(self.stream, drawn.indices, self.batch_size, batch.target, batch.places)
        self._launch_advance(drawn)

    @abstractmethod
    def _launch_draw(self, indices: Buffer, weights: Part) -> None:
        """Start to draw rows and to compute their weights."""

    @abstractmethod
    def _launch_advance(self, drawn: Drawn) -> None:
        """Start to count the batch in `step`, and to write `drawn.written`."""

    @abstractmethod
    def launch_update(self, td_errors: Part, number: int = 0) -> None:
        """Start to set the priorities of a batch; a TD error that is not finite is kept for `finish` to tell.

        Rows that were overwritten since the batch was drawn keep their priorities.

        Args:
            td_errors: (B,) float32.
            number: which of `drawn` it is.
        """

    @abstractmethod
    def inserter(self, indices: Buffer, inserted: Buffer, count: int) -> Callable[[], None]:
        """Return a function that starts to make items of rows that were written on the device.

        Args:
            indices: (count,) int64, their rows first, then rows that stay as they are.
            inserted: one int64, the number of new rows, at most `count`.
        """

    def insert(self, batch: Mapping[str, ArrayLike], td_errors: ArrayLike | None = None) -> NDArray[np.int64]:
        """Insert items from the host after all work so far, replacing the oldest ones when the storage is full.

        Args:
            td_errors: (n,) TD errors that give the priorities; None: the largest priority so far.

        Raises:
            RuntimeError: another process created this object.
            TypeError, ValueError: as the host's replay, or as `finish`.
        """
        self.finish()
        arrays = self.storage.checked(batch)
        rows = self.storage.next_rows(len(next(iter(arrays.values()))))
        self._insert(rows, td_errors)
        written = self.stream.download(self.written, 1, np.int64)
        self.stream.upload(self.written, written + len(rows))
        return self.storage.write(arrays, rows)

    @abstractmethod
    def _insert(self, rows: NDArray[np.int64], td_errors: ArrayLike | None) -> None:
        """Make items of rows of the host, before they are written."""

    def finish(self) -> None:
        """Wait for the stream.

        Raises:
            RuntimeError: another process created this object.
            ValueError: an update since the last call had TD errors that are not finite, or too large.
        """
        self._check_process()
        self.stream.finish()
        if self._was_wrong():
            raise ValueError(
                "td_errors: found one that is NaN, infinite or too large; allowed: finite numbers"
            )

    @abstractmethod
    def _was_wrong(self) -> bool:
        """Return whether an update since the last call had a wrong TD error; the stream is idle."""
