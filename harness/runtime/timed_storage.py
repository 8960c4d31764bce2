"""Storages that count the seconds of their gathers and writes."""

from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from placerl.harness.measure.full_speed import own_time
from placerl.primitives.replay import Storage
from placerl.primitives.replay.device import DeviceStorage

Value = TypeVar("Value")


class TimedStorage(Storage):
    """A storage that counts the seconds of its gathers and writes, separately from sampling and inserting.

    On a device, `gather` only starts the work: whoever reads the batch, such as the learner's step, waits for it.

    Attributes:
        gather_s, write_s: seconds spent so far on gathering and on writing.
        without_waiting: whether these leave out the seconds for which the thread waited for a core, as virtual time
            does; reading them takes longer than a small gather.
    """

    gather_s = 0.0
    write_s = 0.0
    without_waiting = False

    def gather(
        self, indices: npt.ArrayLike, out: Mapping[str, npt.NDArray] | None = None
    ) -> dict[str, npt.NDArray]:
        batch, seconds = self._timed(partial(super().gather, indices, out))
        self.gather_s += seconds
        return batch

    def write(self, arrays: Mapping[str, npt.NDArray], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        written, seconds = self._timed(partial(super().write, arrays, rows))
        self.write_s += seconds
        return written

    def _timed(self, work: Callable[[], Value]) -> tuple[Value, float]:
        if self.without_waiting:
            return own_time(work)
        start_s = perf_counter()
        value = work()
        return value, perf_counter() - start_s


class TimedDeviceStorage(TimedStorage, DeviceStorage):
    """A storage in a device's memory that counts the seconds of its gathers and writes."""


class FetchedStorage(TimedDeviceStorage):
    """A storage in a device's memory whose batches are copied to the host, where a simulated learner reads them."""

    def gather(
        self, indices: npt.ArrayLike, out: Mapping[str, npt.NDArray] | None = None
    ) -> dict[str, npt.NDArray]:
        """Copy a batch of rows to the host, and return it by column.

        Args:
            indices: (B,) rows of the storage.
            out: arrays on the host that get the batch, by column; by default new arrays.
        """
        return super().gather(
            indices, Storage.allocate(self, len(np.asarray(indices))) if out is None else out
        )

    def allocate(self, batch_size: int) -> dict[str, npt.NDArray]:
        """Return empty arrays on the host for a batch of `batch_size` rows, by column, for `gather`."""
        return Storage.allocate(self, batch_size)
