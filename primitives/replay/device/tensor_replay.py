"""Prioritised replay whose batches are PyTorch tensors in a device's memory, which nothing copies through the host.

    replay = TensorReplay(1_000_000, fields, "cuda", beta=LinearSchedule(0.4, 1.0, 50_000))
    replay.insert(transitions)  # arrays of the host
    sample = replay.sample(256)  # tensors on the device
    replay.update_priorities(td_errors)  # a tensor on the device

It is a `ResidentPrioritizedReplay` for learners of other libraries. Kernels write into memory that PyTorch allocates,
and read what PyTorch's kernels wrote. PyTorch's device "cpu" is the device "host": the same code on arrays of the host.
"""

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from placerl.primitives import checks
from placerl.primitives.device import Part
from placerl.primitives.one_caller import OwnProcess
from placerl.primitives.replay.base import EMPTY
from placerl.primitives.replay.device.device_storage import DeviceStorage
from placerl.primitives.replay.device.packed_rows import Place
from placerl.primitives.replay.device.resident import Drawn, ResidentBatch
from placerl.primitives.replay.device.resident_prioritized import Prioritised, ResidentPrioritizedReplay
from placerl.primitives.replay.device.tensor_device import current_stream, opened, stream_at
from placerl.primitives.replay.prioritized import value_at
from placerl.primitives.replay.schedule import LinearSchedule
from placerl.primitives.replay.storage import FieldSpec, as_indices
from placerl.primitives.replay.whole_copy import CopiedWhole
from placerl.primitives.sum_tree.gpu.device_tree import DeviceSumTree


class TensorSample(NamedTuple):
    """A sampled batch on the device.

    Attributes:
        indices: (B,) int64, the items' rows. They are the replay's own until the next call of `sample`: read them only.
        weights: (B,) float32 importance weights, at most 1.
        batch: the columns by name, each (B, *shape) of the column's dtype.
    """

    indices: Tensor
    weights: Tensor
    batch: dict[str, Tensor]


class TensorReplay(CopiedWhole, OwnProcess):
    """Prioritised replay on PyTorch's device; one thread calls it.

    On CUDA all work has the order of the stream that was PyTorch's current one when the replay was created. Only
    `insert`, `clear`, copies, and what returns numbers of the host wait for the device. Draws are those of
    `ResidentPrioritizedReplay`. `pickle` and `copy.deepcopy` make an independent replay that continues with the same
    items, priorities and draws, but has no sample whose priorities can be updated.

    Args:
        capacity: number of items that fit.
        fields: the columns, of dtypes that PyTorch has.
        where: PyTorch's device, of type "cuda" or "cpu".
        alpha, beta, epsilon: as in `PrioritizedReplay`; a schedule is a `LinearSchedule`.
        fanout: children of a node of the sum tree (K), 2 to 256.
        seed: which random numbers are drawn, below 2^64.

    Attributes:
        where: the device, with its number.
        storage: the rows on the device.

    Raises:
        TypeError: a dtype that PyTorch lacks, or another schedule.
        ValueError: an option out of its range, or a device of another type.
        BackendUnavailableError: the device cannot be used here.
        MemoryError: the device has no room.
    """

    def __init__(
        self,
        capacity: int,
        fields: Mapping[str, FieldSpec],
        where: str | torch.device = "cuda",
        *,
        alpha: float = 0.6,
        beta: float | LinearSchedule = 0.4,
        epsilon: float = 1e-6,
        fanout: int = 16,
        seed: int = 0,
    ) -> None:
        if callable(beta) and not isinstance(beta, LinearSchedule):
            raise TypeError(f"beta: found {type(beta).__name__}; allowed: a number, or a LinearSchedule")
        self._how, self._fanout = Prioritised(alpha, beta, epsilon), fanout
        checks.whole("seed", seed, 0, 2**64 - 1)
        self._seed = seed
        self._begin(capacity, fields, torch.device(where))

    def _begin(self, capacity: int, fields: Mapping[str, FieldSpec], where: torch.device) -> None:
        """Create the empty replay on a device."""
        super().__init__()
        where, on = opened(where)
        self._dtypes = {name: _dtype(name, field) for name, field in fields.items()}
        self.where, self._current = where, current_stream(where)
        self.storage = DeviceStorage(capacity, fields, on)
        tree = DeviceSumTree(capacity, self._fanout, np.float32, on)
        stream = stream_at(on, self._current)
        self._resident = ResidentPrioritizedReplay(
            tree, self.storage, 1, self._how, seed=self._seed, stream=stream
        )
        self._is_drawn = False

    def __getstate__(self) -> dict[str, Any]:
        own = {name: self.__dict__[name] for name in ("_how", "_fanout", "_seed", "where")}
        return own | {"held": self._resident.held(), "of": (self.storage.capacity, self.storage.fields)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        held, (capacity, fields), where = (state.pop(name) for name in ("held", "of", "where"))
        self.__dict__.update(state)
        self._begin(capacity, fields, where)
        self._resident.restore(held)

    def to(self, where: str | torch.device) -> Self:
        """Return a copy on a device, or this replay if it is there already."""
        if torch.device(where) in (self.where, torch.device(self.where.type)):
            return self
        copied = type(self).__new__(type(self))
        copied.__setstate__(self.__getstate__() | {"where": torch.device(where)})
        return copied

    def __len__(self) -> int:
        return self.storage.size

    @property
    def alpha(self) -> float:
        """The exponent on priorities."""
        return self._how.alpha

    @property
    def samples_drawn(self) -> int:
        """The number of calls of `sample` so far, which is the step of the beta schedule."""
        return int(self._resident.stream.download(self._resident.step, (), np.int64))

    @property
    def beta(self) -> float:
        """The exponent of the importance weights that the next `sample` uses."""
        return value_at(self._how.beta, self.samples_drawn)

    @property
    def max_priority(self) -> float:
        """The priority that a new item takes."""
        return float(self._resident.stream.download(self._resident.largest, (), np.float64))

    def priorities(self, indices: npt.ArrayLike) -> npt.NDArray[np.floating]:
        """Return the priorities of rows on the host, (B,) float32, after all work so far.

        Args:
            indices: (B,) integers in [0, len).
        """
        self._resident.finish()
        return self._resident.tree.get(as_indices(indices, len(self)))

    def insert(self, batch: Mapping[str, npt.ArrayLike]) -> npt.NDArray[np.int64]:
        """Insert items from the host with the largest priority so far, replacing the oldest when the replay is full.

        Returns:
            (n,) int64, the rows that were written.

        Raises:
            TypeError, ValueError: a batch that does not fit the columns (`Storage.checked`); nothing is inserted.
            ValueError: a TD error since the last insertion was NaN or infinite; nothing is inserted.
        """
        self._check_stream()
        return self._resident.insert(batch)

    def sample(self, batch_size: int) -> TensorSample:
        """Start to draw items with replacement, each with a probability proportional to its priority.

        Raises:
            TypeError, ValueError: a batch size that is no integer of at least 1, or nothing to draw.
        """
        self._check_stream()
        checks.whole("batch_size", batch_size, 1)
        if not len(self):
            raise ValueError(EMPTY)
        resident = self._resident
        if resident.batch_size != batch_size:
            resident.resize(batch_size)
        places, item_bytes = self._places(self.storage.fields)
        weights_at = -(-batch_size * item_bytes // 4) * 4
        memory = self._allocated(weights_at + 4 * batch_size)
        indices = torch.empty(batch_size, dtype=torch.int64, device=self.where)
        target = self.storage.device.adopted(memory)
        resident.drawn[0] = Drawn(self.storage.device.adopted(indices), resident.drawn[0].written)
        resident.launch_sample(ResidentBatch(target, places, Part(target, weights_at, 4 * batch_size)))
        self._is_drawn = True
        weights = memory[weights_at:].view(torch.float32)
        return TensorSample(indices, weights, self._columns(memory, places, batch_size))

    def gather(self, indices: Tensor | npt.ArrayLike, *names: str) -> dict[str, Tensor]:
        """Start to copy columns of rows.

        Args:
            indices: (B,) integers in [0, len), which are not checked if they are a tensor.
            names: the columns; all by default.

        Returns:
            The columns by name, each (B, *shape) on the device.
        """
        self._check_stream()
        if not isinstance(indices, Tensor):
            indices = torch.from_numpy(as_indices(indices, len(self)))
        rows = indices.to(self.where, torch.int64).contiguous()
        fields = {name: self.storage.fields[name] for name in names or self.storage.fields}
        places, item_bytes = self._places(fields)
        memory = self._allocated(len(rows) * item_bytes)
        if len(rows):
            on, stream = self.storage.device, self._resident.stream
            self.storage.launch_gather(stream, on.adopted(rows), len(rows), on.adopted(memory), places)
        return self._columns(memory, places, len(rows))

    def update_priorities(self, td_errors: Tensor) -> None:
        """Start to set the priorities of the last sample. Items that were replaced meanwhile keep theirs.

        Args:
            td_errors: (B,) real numbers, of either sign. The next `insert` tells of one that is NaN or infinite, which
                leaves all priorities as they were.

        Raises:
            RuntimeError: there is no sample since the replay was created, copied or cleared.
            ValueError: another shape than the sample's.
        """
        self._check_stream()
        resident = self._resident
        if not self._is_drawn:
            raise RuntimeError("update_priorities: found no sample; allowed: after `sample`")
        if td_errors.shape != (resident.batch_size,):
            allowed = (resident.batch_size,)
            raise ValueError(f"td_errors: found shape {tuple(td_errors.shape)}; allowed: {allowed}")
        errors = td_errors.detach().to(self.where, torch.float32).contiguous()
        resident.launch_update(Part(self.storage.device.adopted(errors), 0, 4 * resident.batch_size))

    def clear(self) -> None:
        """Remove every item. New items get priority 1 again; the beta schedule goes on."""
        self._check_stream()
        self._resident.clear()
        self._is_drawn = False

    def _allocated(self, size_bytes: int) -> Tensor:
        return torch.empty(size_bytes, dtype=torch.uint8, device=self.where)

    def _places(self, fields: Mapping[str, FieldSpec]) -> tuple[dict[str, Place], int]:
        """Return where columns are in the memory of a batch of any size, and their bytes per item.

        Items that are multiples of higher powers of two, as 0 is of all, come first: so each column is aligned.
        """
        dtypes = {name: np.dtype(field.dtype) for name, field in fields.items()}
        sizes = {name: dtypes[name].itemsize * prod(field.shape) for name, field in fields.items()}
        offsets, end = dict[str, int](), 0
        for name in sorted(sizes, key=lambda name: sizes[name] & -sizes[name] or 2**63, reverse=True):
            offsets[name] = end
            end += sizes[name]
        return {name: Place(0, dtype, offsets[name]) for name, dtype in dtypes.items()}, end

    def _columns(self, memory: Tensor, places: Mapping[str, Place], count: int) -> dict[str, Tensor]:
        columns = {}
        for name, place in places.items():
            shape = (count, *self.storage.fields[name].shape)
            size_bytes = int(np.prod(shape, dtype=np.int64)) * place.dtype.itemsize
            begin = count * place.item_offset_bytes
            part = memory[begin : begin + size_bytes]
            columns[name] = part.view(self._dtypes[name]).view(shape)
        return columns

    def _check_stream(self) -> None:
        self._check_process()
        if (found := current_stream(self.where)) != self._current:
            raise RuntimeError(
                f"stream: found PyTorch's current stream {found:#x}; allowed: {self._current:#x}, the current one "
                "when the replay was created"
            )


def _dtype(name: str, field: FieldSpec) -> torch.dtype:
    try:
        return torch.from_numpy(np.empty(0, field.dtype)).dtype
    except TypeError:
        raise TypeError(
            f"fields[{name!r}]: found dtype {np.dtype(field.dtype)}; allowed: PyTorch's"
        ) from None
