"""Prioritised replay whose steps stay on the device: what they launch can be recorded in a graph with a learner's step.

    resident = ResidentReplay(tree, storage, 32, seed=0)
    with resident.stream.recorded() as graph:
        resident.launch_sample(batch)  # indices, weights and rows are on the device
        ...  # the learner writes TD errors on the same stream
        resident.launch_update(td_errors)
    resident.insert(transitions)
    graph.replay()

It draws, updates and inserts as `PrioritizedReplay` does, with random numbers from a counter (`device/philox.h`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from placerl.primitives.device import Buffer, Groups, Part, Stream, philox
from placerl.primitives.one_caller import OwnProcess
from placerl.primitives.replay.base import as_td_errors
from placerl.primitives.replay.device.device_storage import DeviceStorage
from placerl.primitives.replay.device.packed_rows import Place
from placerl.primitives.replay.prioritized import PRIORITY_MIN, checked_options, item_priorities
from placerl.primitives.replay.schedule import LinearSchedule
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
        target: a buffer of the device.
        places: by column name, where in the target the column is written, as contiguous (B, *shape).
        weights_bytes: first byte in the target of the importance weights, (B,) float32.
    """

    target: Buffer
    places: Mapping[str, Place]
    weights_bytes: int


@dataclass(frozen=True)
class Prioritised:
    """How items are drawn by priority.

    Attributes:
        alpha, epsilon: as in `PrioritizedReplay`.
        beta: the exponent of the importance weights, a constant or linear over steps.
        stratified: whether each of B equal parts of the total gets one item.

    Raises:
        TypeError: an option is not a number.
        ValueError: an option is out of range.
    """

    alpha: float = 0.6
    beta: float | LinearSchedule = 0.4
    epsilon: float = 1e-6
    stratified: bool = False

    def __post_init__(self) -> None:
        checked_options(self.alpha, self.beta, self.epsilon, "batch")


class ResidentReplay(OwnProcess):
    """Samples, gathers and updates priorities on one stream of a device, without a copy to or from the host.

    Only `insert` and `finish` wait for the device. All calls come from one thread.

    Args:
        tree: the priorities of the storage's rows, all 0.
        storage: the rows, none yet.
        batch_size: B, items per step.
        how: how they are drawn.
        seed: which random numbers are drawn, below 2^64.
        stream: the stream of all work; None: a new one.

    Attributes:
        tree, storage, batch_size, how, stream: the same.
        key: the key of the random numbers, two words of 32 bits, the lower first.
        step: buffer of one int64, the number of batches drawn so far: the counter of the random numbers.
        indices: buffer of (B,) int64, the rows of the batch drawn last.
        largest: buffer of one float64, the largest priority so far, which new items get.

    Raises:
        ValueError: tree and storage are on different devices, of different sizes or not empty, or the device has no
            double precision.
    """

    def __init__(
        self,
        tree: DeviceSumTree,
        storage: DeviceStorage,
        batch_size: int,
        how: Prioritised = Prioritised(),
        *,
        seed: int = 0,
        stream: Stream | None = None,
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
        if storage.size or tree.total:
            raise ValueError("storage, tree: found items or priorities; allowed: both empty")
        beta = how.beta if isinstance(how.beta, LinearSchedule) else LinearSchedule(how.beta, how.beta, 1)
        self.tree, self.storage, self.batch_size, self.how = tree, storage, batch_size, how
        self.stream = stream = stream or device.stream()
        self.key = np.uint32(seed & 0xFFFFFFFF), np.uint32(seed >> 32)
        real = tree.dtype.itemsize
        self._prefix, self._rounded_off, self._priorities = (
            stream.zeros(batch_size * real) for _ in range(3)
        )
        self.indices, self.step = stream.zeros(batch_size * 8), stream.zeros(8)
        self.largest, self._beta = (
            stream.uploaded(np.ones(1)),
            stream.uploaded(np.array([beta.initial], np.float64)),
        )
        self._annealing = np.float64(beta.initial), np.float64(beta.final), np.int64(beta.steps)
        self._stratified = np.int32(how.stratified)
        self._kernels = device.kernels(kernel_source(tree.dtype))

    def launch_sample(self, batch: ResidentBatch) -> None:
        """Start to draw the next batch, and to write its rows and weights. Nothing is drawn from an empty storage.

        While a graph is recorded, the storage must have the table of `batch.places` (`DeviceStorage.table`).
        """
        stream, kernels, tree, count = self.stream, self._kernels, self.tree, self.batch_size
        prefixes, length = (self._prefix, self._rounded_off), np.int64(count)
        stream.launch(
            kernels["draw"], count, self.step, *self.key, self._stratified, tree.values, *prefixes, length
        )
        tree.launch_find(stream, *prefixes, self.indices, count)
        weighted = self.indices, self._beta, batch.target, np.int64(batch.weights_bytes), length
        leaves = np.int64(tree.first_leaf)
        stream.launch(kernels["importance"], Groups(1, (256, 1)), tree.values, leaves, *weighted)
        self.storage.launch_gather(stream, self.indices, count, batch.target, batch.places)
        stream.launch(kernels["advance"], 1, self.step, self._beta, *self._annealing)

    def launch_update(self, td_errors: Part) -> None:
        """Start to set the priorities of the last batch; a TD error that is NaN leaves the tree as it was.

        Args:
            td_errors: (B,) float32.
        """
        powers = np.float64(self.how.alpha), np.float64(self.how.epsilon), np.float64(PRIORITY_MIN)
        source = td_errors.buffer, np.int64(td_errors.offset_bytes)
        written = self._priorities, self.largest, np.int64(self.batch_size)
        self.stream.launch(self._kernels["prioritise"], Groups(1, (256, 1)), *source, *powers, *written)
        self.tree.launch_checked_update(self.stream, self.indices, self._priorities, self.batch_size)

    def launch_insert(self, indices: Buffer, priorities: Buffer, count: int) -> None:
        """Start to give rows that were written on the device the priority of new items, the largest so far.

        Args:
            indices: (count,) int64, the rows.
            priorities: room for (count,) of the tree's dtype.
        """
        self.stream.launch(self._kernels["prioritise_new"], count, self.largest, priorities, np.int64(count))
        self.tree.launch_update(self.stream, indices, priorities, count)

    def insert(self, batch: Mapping[str, ArrayLike], td_errors: ArrayLike | None = None) -> NDArray[np.int64]:
        """Insert items from the host after all work so far, replacing the oldest ones when the storage is full.

        Args:
            td_errors: (n,) TD errors that give the priorities; None: the largest priority so far.

        Raises:
            RuntimeError: another process created this object.
            TypeError, ValueError: as `PrioritizedReplay.insert`, or as `finish`.
        """
        self.finish()
        arrays = self.storage.checked(batch)
        count = len(next(iter(arrays.values())))
        largest = float(self.stream.download(self.largest, (), np.float64))
        priorities = np.full(count, largest)
        if td_errors is not None:
            priorities = item_priorities(as_td_errors(td_errors, count), self.how.alpha, self.how.epsilon)
        rows = self.storage.next_rows(count)
        self.tree.update(rows, priorities)
        self.tree.synchronise()
        self.stream.upload(self.largest, np.maximum(priorities.max(), largest, dtype=np.float64).reshape(1))
        return self.storage.write(arrays, rows)

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
