"""Prioritised replay whose steps stay on the device, as `PrioritizedReplay` does them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from placerl.primitives.device import Buffer, Groups, Part, Stream, philox
from placerl.primitives.replay.base import as_td_errors
from placerl.primitives.replay.device.device_storage import DeviceStorage
from placerl.primitives.replay.device.resident import Drawn, ResidentReplay
from placerl.primitives.replay.prioritized import PRIORITY_MIN, checked_options, item_priorities, padded
from placerl.primitives.replay.schedule import LinearSchedule
from placerl.primitives.sum_tree.gpu.device_tree import DeviceSumTree


def kernel_source(dtype: DTypeLike) -> str:
    """Return the source of the kernels, in the language that all devices share.

    Args:
        dtype: floating-point type of the priorities, float32 or float64.
    """
    real = "float" if np.dtype(dtype) == np.float32 else "double"
    own = files(__package__).joinpath("prioritized_kernels.h").read_text()
    return f"#define REAL {real}\n{philox.kernel_source()}\n{own}"


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


@dataclass(frozen=True)
class Held:
    """What a replay holds, on the host.

    Attributes:
        columns: the rows by column, each (size, *shape).
        priorities: (size,) of the tree's dtype.
        largest: the largest priority so far.
        written, step: numbers of rows inserted and of batches drawn.
    """

    columns: Mapping[str, NDArray[Any]]
    priorities: NDArray[np.floating]
    largest: float
    written: int
    step: int


class ResidentPrioritizedReplay(ResidentReplay):
    """Draws by priority on a device.

    Args:
        tree: the priorities of the storage's rows, all 0.
        storage, batch_size, ahead, seed, stream: as of `ResidentReplay`.
        how: how items are drawn.

    Attributes:
        tree, how: the same.
        largest: buffer of one float64, the largest priority so far, which new items get.

    Raises:
        ValueError: also where tree and storage are on different devices, or of different sizes, or the tree has
            priorities.
    """

    def __init__(
        self,
        tree: DeviceSumTree,
        storage: DeviceStorage,
        batch_size: int,
        how: Prioritised = Prioritised(),
        *,
        ahead: int = 0,
        seed: int = 0,
        stream: Stream | None = None,
    ) -> None:
        device = storage.device
        if tree.device.place != device.place:
            raise ValueError(f"tree: found {tree.device.name}; allowed: the storage's device, {device.name}")
        if tree.capacity != storage.capacity:
            raise ValueError(
                f"tree: found {tree.capacity} leaves; allowed: the storage's capacity, {storage.capacity}"
            )
        if tree.total:
            raise ValueError("tree: found priorities; allowed: none")
        beta = how.beta if isinstance(how.beta, LinearSchedule) else LinearSchedule(how.beta, how.beta, 1)
        self.tree, self.how = tree, how
        source = kernel_source(tree.dtype)
        super().__init__(storage, batch_size, source, ahead=ahead, seed=seed, stream=stream)
        self.largest = self.stream.uploaded(np.ones(1))
        self._beta = self.stream.uploaded(np.array([beta.initial], np.float64))
        self._annealing = np.float64(beta.initial), np.float64(beta.final), np.int64(beta.steps)
        self._stratified = np.int32(how.stratified)

    def resize(self, batch_size: int) -> None:
        super().resize(batch_size)
        self._prefix, self._rounded_off, self._priorities = (
            self.stream.zeros(batch_size * self.tree.dtype.itemsize) for _ in range(3)
        )

    def held(self) -> Held:
        """Return what the replay holds, after all work so far.

        Raises:
            RuntimeError, ValueError: as `finish`.
        """
        self.finish()
        storage, read = self.storage, self.stream.download
        size = storage.size
        return Held(
            storage.held_columns(size),
            self.tree.get(np.arange(size)),
            float(read(self.largest, (), np.float64)),
            int(read(self.written, (), np.int64)),
            int(read(self.step, (), np.int64)),
        )

    def restore(self, held: Held) -> None:
        """Replace what the replay holds by that of one of the same capacity, columns and dtype of priorities.

        The priorities of batches that were drawn before cannot be updated any more.
        """
        self.finish()
        storage, size = self.storage, len(held.priorities)
        storage.restore_columns(held.columns)
        storage.size, storage.cursor = size, held.written % storage.capacity
        priorities = padded(np.asarray(held.priorities, np.float64), storage.capacity)
        self.tree.update(np.arange(storage.capacity), priorities)
        self.tree.synchronise()
        first, last, steps = self._annealing
        beta = LinearSchedule(float(first), float(last), int(steps))(held.step)
        for buffer, value in (
            (self.largest, np.float64(held.largest)),
            (self.written, np.int64(held.written)),
            (self.step, np.int64(held.step)),
            (self._beta, np.float64(beta)),
        ):
            self.stream.upload(buffer, np.array([value]))

    def clear(self) -> None:
        """Remove every item. New items get priority 1 again; beta and the random numbers go on."""
        none = {name: column[:0] for name, column in self.storage.held_columns(0).items()}
        step = int(self.stream.download(self.step, (), np.int64))
        self.restore(Held(none, np.zeros(0), 1.0, 0, step))

    def _launch_draw(self, indices: Buffer, weights: Part) -> None:
        stream, kernels, tree, count = self.stream, self._kernels, self.tree, self.batch_size
        prefixes, length = (self._prefix, self._rounded_off), np.int64(count)
        stream.launch(
            kernels["draw"], count, self.step, *self.key, self._stratified, tree.values, *prefixes, length
        )
        tree.launch_find(stream, *prefixes, indices, count)
        weighted = indices, self._beta, weights.buffer, np.int64(weights.offset_bytes), length
        leaves = np.int64(tree.first_leaf)
        stream.launch(kernels["importance"], Groups(1, (256, 1)), tree.values, leaves, *weighted)

    def _launch_advance(self, drawn: Drawn) -> None:
        counted = self.written, drawn.written
        self.stream.launch(self._kernels["advance"], 1, self.step, *counted, self._beta, *self._annealing)

    def launch_update(self, td_errors: Part, number: int = 0) -> None:
        """Start to set the priorities of a batch; a TD error that is not finite leaves all of them as they were.

        Args:
            td_errors, number: as of `ResidentReplay.launch_update`.
        """
        tree, drawn = self.tree, self.drawn[number]
        how, limits = self.how, (np.float64(PRIORITY_MIN), np.float64(tree.priority_max))
        powers = np.float64(how.alpha), np.float64(how.epsilon), *limits
        source = td_errors.buffer, np.int64(td_errors.offset_bytes)
        old = tree.values, np.int64(tree.first_leaf), drawn.indices, drawn.written, self.written
        written = np.int64(tree.capacity), self._priorities, self.largest, np.int64(self.batch_size)
        self.stream.launch(self._kernels["prioritise"], Groups(1, (256, 1)), *source, *powers, *old, *written)
        tree.launch_checked_update(self.stream, drawn.indices, self._priorities, self.batch_size)

    def inserter(self, indices: Buffer, inserted: Buffer, count: int) -> Callable[[], None]:
        """Return a function that starts to give new rows the largest priority so far.

        Args:
            indices, inserted, count: as of `ResidentReplay.inserter`; all rows but the new ones differ from these.
        """
        tree, priorities = self.tree, self.stream.zeros(count * self.tree.dtype.itemsize)
        old = tree.values, np.int64(tree.first_leaf), indices, inserted

        def launch() -> None:
            new = self._kernels["prioritise_new"]
            self.stream.launch(new, count, self.largest, *old, self.written, priorities, np.int64(count))
            tree.launch_update(self.stream, indices, priorities, count)

        return launch

    def _insert(self, rows: NDArray[np.int64], td_errors: ArrayLike | None) -> None:
        largest = float(self.stream.download(self.largest, (), np.float64))
        priorities = np.full(len(rows), largest)
        if td_errors is not None:
            priorities = item_priorities(as_td_errors(td_errors, len(rows)), self.how.alpha, self.how.epsilon)
        self.tree.update(rows, priorities)
        self.tree.synchronise()
        self.stream.upload(self.largest, np.maximum(priorities.max(), largest, dtype=np.float64).reshape(1))

    def _was_wrong(self) -> bool:
        return self.tree.was_wrong()
