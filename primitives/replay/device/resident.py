"""Prioritised replay whose steps stay on the device: two graphs, which the host starts without waiting for them.

    resident = ResidentReplay(tree, storage, ResidentBatch(32, target, places), seed=0)
    resident.sample()  # indices, weights and rows are on the device
    ...  # the learner writes `resident.td_errors` on the same stream
    resident.update()

They draw and update as `PrioritizedReplay.sample` and `update_priorities` do, with random numbers from a counter
(`device/philox.h`). The largest priority so far, which new items get there, is not kept: who inserts states the
priority. Insertions and these calls come from one thread.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import DTypeLike

from placerl.primitives.device import Buffer, Groups, philox
from placerl.primitives.one_caller import OwnProcess
from placerl.primitives.replay.base import EMPTY
from placerl.primitives.replay.device.device_storage import DeviceStorage
from placerl.primitives.replay.device.packed_rows import Place
from placerl.primitives.replay.prioritized import PRIORITY_MIN
from placerl.primitives.sum_tree.gpu.device_tree import DeviceSumTree


def kernel_source(dtype: DTypeLike) -> str:
    """Return the source of the kernels, in the language that all devices share.

    Args:
        dtype: floating-point type of the priorities, float32 or float64.
    """
    real = "float" if np.dtype(dtype) == np.float32 else "double"
    own = files(__package__).joinpath("resident_kernels.h").read_text()
    return f"#define REAL {real}\n{philox.kernel_source()}\n{own}"


@dataclass(frozen=True)
class ResidentBatch:
    """Where a batch is written.

    Attributes:
        size: B, items per step.
        target: a buffer of the device.
        places: by column name, where in the target the column is written, as contiguous (B, *shape).
    """

    size: int
    target: Buffer
    places: Mapping[str, Place]


class ResidentReplay(OwnProcess):
    """Samples, gathers and updates priorities on one stream of a device, without a copy to or from the host.

    Items are inserted by the host as before, after `finish` and before `tree.synchronise`, since the tree's other calls
    are on another stream. `DeviceStorage` itself waits for the rows that are still read.

    Args:
        tree: the priorities of the storage's rows.
        storage: the rows.
        batch: where they are written.
        alpha, epsilon: as in `PrioritizedReplay`.
        stratified: whether each of B equal parts of the total gets one item.
        seed: which random numbers are drawn.

    Attributes:
        stream: the stream of all work.
        indices: buffer of (B,) int64, the sampled rows.
        weights: buffer of (B,) float32, their importance weights, normalised by the largest.
        td_errors: buffer of (B,) float32, which `update` reads.
        beta: buffer of one float64, the exponent of the weights; 1 at first.

    Raises:
        ValueError: tree and storage are on different devices or of different sizes, or the device has no double
            precision.
    """

    def __init__(
        self,
        tree: DeviceSumTree,
        storage: DeviceStorage,
        batch: ResidentBatch,
        *,
        alpha: float = 0.6,
        epsilon: float = 1e-6,
        stratified: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        device = storage.device
        if tree.device.place != device.place:
            raise ValueError(f"tree: found {tree.device.name}; allowed: the storage's device, {device.name}")
        if tree.capacity != storage.capacity:
            raise ValueError(
                f"tree: found {tree.capacity} leaves; allowed: the storage's capacity, {storage.capacity}"
            )
        if not device.has_double:
            raise ValueError(f"device: found {device.name}; allowed: one with double precision")
        self.tree, self.storage, self.batch = tree, storage, batch
        self.stream = stream = device.stream()
        count, real = batch.size, tree.dtype.itemsize
        prefix, rounded_off, priorities = (stream.zeros(count * real) for _ in range(3))
        self.indices, self.weights = stream.zeros(count * 8), stream.zeros(count * 4)
        self.td_errors, self.beta = stream.zeros(count * 4), stream.uploaded(np.ones(1))
        self._step = stream.zeros(8)
        storage.table(batch.places)  # which is uploaded
        kernels = device.kernels(kernel_source(tree.dtype))
        values, leaves, length = tree.values, np.int64(tree.first_leaf), np.int64(count)
        key = np.uint32(seed & 0xFFFFFFFF), np.uint32(seed >> 32), np.int32(stratified)
        prefixes = prefix, rounded_off
        powers = np.float64(alpha), np.float64(epsilon), np.float64(PRIORITY_MIN)
        with stream.recorded() as self._sampling:
            stream.launch(kernels["draw"], count, self._step, *key, values, *prefixes, length)
            tree.launch_find(stream, *prefixes, self.indices, count)
            weighted = self.indices, self.beta, self.weights, length
            stream.launch(kernels["importance"], Groups(1, (256, 1)), values, leaves, *weighted)
            storage.launch_gather(stream, self.indices, count, batch.target, batch.places)
            stream.launch(kernels["advance"], 1, self._step, np.int64(1))
        with stream.recorded() as self._updating:
            stream.launch(kernels["prioritise"], count, self.td_errors, *powers, priorities, length)
            tree.launch_checked_update(stream, self.indices, priorities, count)

    def sample(self) -> None:
        """Start to draw the next batch and to gather its rows.

        Raises:
            RuntimeError: another process created this object.
            ValueError: the storage is empty.
        """
        self._check_process()
        if not self.storage.size:
            raise ValueError(EMPTY)
        self._sampling.replay()
        self.storage.read_by(self.stream)

    def update(self) -> None:
        """Start to set the priorities of the last batch from `td_errors`; one that is NaN leaves the tree as it was.

        Raises:
            RuntimeError: another process created this object.
        """
        self._check_process()
        self._updating.replay()

    def finish(self) -> None:
        """Wait for the stream.

        Raises:
            RuntimeError: another process created this object.
            ValueError: an update since the last call had TD errors that are not finite, or too large.
        """
        self._check_process()
        self.stream.finish()
        if self.tree.was_wrong():
            raise ValueError(
                "td_errors: found one that is NaN, infinite or too large; allowed: finite numbers"
            )
