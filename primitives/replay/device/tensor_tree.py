"""A sum tree on PyTorch's device, whose draws and updates are tensors that nothing copies through the host.

    tree = TensorTree(1_000_000, "cuda")
    largest = tree.update(indices, td_errors.abs(), alpha=0.6, epsilon=1e-8)  # tensors on the device
    draw = tree.draw(256, len(storage))
    weights = (draw.priorities / draw.least) ** -beta

It is for the prioritised replays of other libraries, which keep items and weights themselves.
"""

from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import DTypeLike
from torch import Tensor

from placerl.primitives import checks
from placerl.primitives.device import Buffer, Device, Groups, Stream
from placerl.primitives.one_caller import OwnProcess
from placerl.primitives.replay.device.tensor_device import current_stream, opened, stream_at
from placerl.primitives.sum_tree.gpu.device_tree import BATCH_MAX, DeviceSumTree

DTYPES: dict[torch.dtype, np.dtype[Any]] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
}
"""Types of priorities, by PyTorch's."""


def kernel_source() -> str:
    """Return the source of the kernels, which follows that of the sum tree's."""
    return files(__package__).joinpath("tensor_tree_kernels.h").read_text()


class LeastSumTree(DeviceSumTree):
    """A `DeviceSumTree` that also has the smallest positive priority below each node.

    Attributes:
        least: that priority, of the nodes above the leaves in the positions of `values`; 0 where there is none.
    """

    def __init__(self, capacity: int, fanout: int, dtype: DTypeLike, device: Device) -> None:
        super().__init__(capacity, fanout, dtype, device, kernel_source())
        self.least = self._stream.zeros(self.first_leaf * self.dtype.itemsize)
        self._stream.finish()

    def _launch_sums(self, stream: Stream, size: int, *arguments: Any) -> None:
        of_leaves = np.int32(arguments[1] == self.first_leaf)
        stream.launch(self._kernels["sum_and_least"], size, *arguments, self.least, of_leaves)

    def launch_draw(
        self, stream: Stream, uniform: Buffer, items: int, found: tuple[Buffer, ...], count: int
    ) -> None:
        """Start to draw from the first `items` leaves, with probabilities proportional to their priorities.

        Args:
            uniform: (B,) float64 in [0, 1).
            found: written: (B,) int64 indices; (B,) priorities; the smallest positive priority; and two times (B,) of
                scratch, all but the indices of the tree's dtype.
        """
        indices, priorities, smallest, prefix, rounded_off = found
        length, inner = np.int64(count), (self.values, self.least, self._device_offsets)
        shape = np.int32(len(self._nodes)), np.int32(self.fanout), np.int64(self.capacity), np.int64(items)
        place, read = self._kernels["place"], self._kernels["read_drawn"]
        stream.launch(place, count, uniform, *inner, *shape, prefix, rounded_off, smallest, length)
        self.launch_find(stream, prefix, rounded_off, indices, count)
        leaves = np.int64(self.first_leaf), np.int64(items)
        stream.launch(read, count, self.values, *leaves, indices, priorities, length)

    def launch_get(self, stream: Stream, indices: Buffer, priorities: Buffer, count: int) -> None:
        """Start to read the priorities of leaves."""
        leaves, length = np.int64(self.first_leaf), np.int64(count)
        stream.launch(self._kernels["get"], count, self.values, leaves, indices, priorities, length)

    def launch_admit(self, stream: Stream, count: int, *arguments: Buffer | np.generic) -> None:
        """Start to check and transform priorities, with the arguments of the kernel `admit`."""
        stream.launch(self._kernels["admit"], Groups(1, (256, 1)), *arguments, np.int64(count))


class Draw(NamedTuple):
    """What was drawn.

    Attributes:
        indices: (B,) int64.
        priorities: (B,), of these indices.
        least: (), the smallest positive priority of those that could be drawn.
    """

    indices: Tensor
    priorities: Tensor
    least: Tensor


class Largest(NamedTuple):
    """The largest priority so far; NaN where there is none yet.

    Attributes:
        priority: (), as it was given, before its power.
        at: () int64, its index.
    """

    priority: Tensor
    at: Tensor


class TensorTree(OwnProcess):
    """A sum tree on PyTorch's device, read and written like an array; one thread calls it.

    Its work has the order of the stream that is PyTorch's current one at the call, and the host does not wait for it.
    An update with a wrong index or priority changes nothing; one of the next calls raises ValueError, and copies and
    `raise_if_wrong` always do. `pickle` and `copy.deepcopy` make an independent tree with the same priorities.

    Args:
        capacity: number of leaves.
        where: PyTorch's device, of type "cuda" or "cpu".
        dtype: type of the priorities, float32 or float64.
        fanout: children of a node of the sum tree (K), 2 to 256.

    Attributes:
        device: the device, with its number.

    Raises:
        ValueError: an option out of its range, or a device of another type.
        BackendUnavailableError: the device cannot be used here.
        MemoryError: the device has no room.
    """

    def __init__(
        self,
        capacity: int,
        where: str | torch.device = "cuda",
        dtype: torch.dtype = torch.float32,
        fanout: int = 16,
    ) -> None:
        super().__init__()
        if dtype not in DTYPES:
            raise ValueError(f"dtype: found {dtype}; allowed: {', '.join(map(str, DTYPES))}")
        checks.whole("capacity", capacity, 1)
        self.device, self._on = opened(torch.device(where))
        self.dtype, self._fanout, self._capacity = dtype, fanout, capacity
        # One leaf more, whose priority stays 0, for what an update leaves out.
        self._tree = LeastSumTree(capacity + 1, fanout, DTYPES[dtype], self._on)
        self._told = torch.zeros(1, dtype=torch.int32, device=self.device)
        # The mark of a wrong update as the host last saw it: pinned memory, which the device writes while nobody waits.
        pinned = self.device.type == "cuda"
        self._seen = torch.zeros(1, dtype=torch.int32, pin_memory=True) if pinned else self._told
        self._none = Largest(
            torch.full((), torch.nan, dtype=dtype, device=self.device),
            torch.full((), -1, dtype=torch.int64, device=self.device),
        )

    def __getstate__(self) -> dict[str, Any]:
        self.raise_if_wrong()
        own = self._capacity, self.device, self.dtype, self._fanout
        return {"own": own, "priorities": self[torch.arange(self._capacity)].cpu()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(*state["own"])  # type: ignore[misc]
        self[torch.arange(self._capacity)] = state["priorities"]

    def __len__(self) -> int:
        return self._capacity

    def __getitem__(self, index: Any) -> Tensor:
        """Return priorities, in the shape of the indices, which are not checked."""
        self._check_process()
        rows = torch.as_tensor(index, device=self.device).to(torch.int64).contiguous()
        priorities = torch.empty(rows.shape, dtype=self.dtype, device=self.device)
        if rows.numel():
            self._tree.launch_get(
                self._stream(), self._adopted(rows), self._adopted(priorities), rows.numel()
            )
        return priorities

    def __setitem__(self, index: Any, priority: Any) -> None:
        """Set priorities, as `update` without a power."""
        rows = torch.as_tensor(index, device=self.device).reshape(-1)
        self.update(rows, torch.as_tensor(priority, device=self.device).reshape(-1))

    def draw(self, count: int, items: int, generator: torch.Generator | None = None) -> Draw:
        """Start to draw with replacement from the first `items` leaves, with probabilities proportional to priorities.

        Args:
            count: B, at least 1.
            items: 1 to the capacity. Their priorities are not all 0, which is not checked.
            generator: the random numbers' generator, on the device; by default PyTorch's own.

        Raises:
            ValueError: a count that is no integer of at least 1, or an earlier update was wrong.
        """
        checks.whole("count", count, 1)
        self._raise_if_seen()
        uniform = torch.rand(count, dtype=torch.float64, device=self.device, generator=generator)
        indices = torch.empty(count, dtype=torch.int64, device=self.device)
        scratch = torch.empty(3 * count + 1, dtype=self.dtype, device=self.device)
        part = self._adopted(scratch)
        found = part[:count], part[3 * count :], part[count : 2 * count], part[2 * count : 3 * count]
        items = self._tree.capacity if items >= self._capacity else items
        self._tree.launch_draw(
            self._stream(), self._adopted(uniform), items, (self._adopted(indices), *found), count
        )
        return Draw(indices, scratch[:count], scratch[3 * count])

    def update(
        self,
        indices: Tensor,
        priorities: Tensor,
        *,
        alpha: float = 1.0,
        epsilon: float = 0.0,
        floor: float = 0.0,
        largest: tuple[Any, Any] | None = None,
    ) -> Largest:
        """Start to set P[index] = (priority + epsilon) ** alpha, but at least `floor`; of a repeated index the last.

        Args:
            indices: (B,) integers below the capacity; a negative one is left out.
            priorities: (B,), or (1,) for all, 0 or more and finite.
            largest: the largest priority before, and its index; None if there was none.

        Returns:
            The largest priority, also of these.

        Raises:
            ValueError: an earlier update was wrong, or there are more than 2^31 - 2 indices, or other shapes.
        """
        self._raise_if_seen()
        count, given = len(indices), len(priorities)
        if count > BATCH_MAX or given not in (1, count):
            allowed = f"1, or as many as indices, {count}" if count <= BATCH_MAX else f"at most {BATCH_MAX}"
            raise ValueError(f"priorities: found {given}; allowed: {allowed}")
        before = self._on_device(largest)
        if not count:
            return before
        raw = priorities.detach().to(self.device, self.dtype).contiguous()
        wanted = indices.to(self.device, torch.int64).contiguous()
        rows, powers = torch.empty_like(wanted), torch.empty(count, dtype=self.dtype, device=self.device)
        after = Largest(torch.empty_like(before.priority), torch.empty_like(before.at))
        stream, adopted, tree = self._stream(), self._adopted, self._tree
        how = np.float64(alpha), np.float64(epsilon), np.float64(floor), np.float64(tree.priority_max)
        what = adopted(wanted), adopted(raw), np.int64(0 if given == 1 else 1)
        found = (adopted(each) for each in (*before, rows, powers, *after, self._told))
        tree.launch_admit(stream, count, *what, *how, np.int64(self._capacity), *found)
        tree.launch_update(stream, adopted(rows), adopted(powers), count)
        if self._seen is not self._told:
            self._seen.copy_(self._told, non_blocking=True)
        return after

    def raise_if_wrong(self) -> None:
        """Wait for the device and raise if an earlier update was wrong.

        Raises:
            ValueError: an index was not below the capacity, or a priority negative, not finite or too large.
        """
        self._check_process()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self._raise_if_seen()

    def _raise_if_seen(self) -> None:
        self._check_process()
        if not int(self._seen):
            return
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # copies of the mark may be on their way
        self._told.zero_()
        self._seen.zero_()
        raise ValueError(
            "update: found a wrong index or priority in an earlier call, which changed nothing; allowed: indices below "
            f"{self._capacity}, priorities 0 to {self._tree.priority_max:.4g}"
        )

    def _on_device(self, largest: tuple[Any, Any] | None) -> Largest:
        if largest is None or largest[0] is None:
            return self._none
        priority, index = largest
        return Largest(
            torch.as_tensor(priority, dtype=self.dtype, device=self.device),
            torch.as_tensor(-1 if index is None else index, device=self.device).to(torch.int64),
        )

    def _stream(self) -> Stream:
        return stream_at(self._on, current_stream(self.device))

    def _adopted(self, tensor: Tensor) -> Buffer:
        return self._on.adopted(tensor)
