"""The sum tree that the OpenCL and CUDA backends share: its layout in memory, and the kernels of each operation.

The kernels are in `device_kernels.h`. A `TreeDevice` holds the arrays and launches the kernels.
"""

from importlib.resources import files
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from placerl.primitives.sum_tree.own_process import OwnProcessSumTree

# The largest batch: positions in a batch are kept in 32-bit integers.
BATCH_MAX = 2**31 - 2
# A float32 distinguishes about 2^24 prefixes, which is enough in a node with this many leaves below it.
REFINED_LEAVES = 4096


def kernel_source() -> str:
    """Return the source of the kernels, in the subset shared by OpenCL, CUDA and C++.

    Each backend puts its own definitions (`PRELUDE`) before it.
    """
    return files(__package__).joinpath("device_kernels.h").read_text()


class TreeDevice(Protocol):
    """The memory and the kernels of one device. Kernels run in the order in which they are launched."""

    def zeros(self, shape: int, dtype: DTypeLike) -> Any:
        """Return a new device array of zeros."""

    def upload(self, values: NDArray[Any]) -> Any:
        """Return a new device array with a copy of `values`."""

    def download(self, array: Any) -> NDArray[Any]:
        """Return a host copy of a device array, after all earlier launches have finished."""

    def launch(self, name: str, size: int, *arguments: Any) -> None:
        """Start kernel `name` for work items 0 to `size` - 1; arguments are device arrays or NumPy scalars."""


class DeviceSumTree(OwnProcessSumTree):
    """A K-ary sum tree in one device array (MAP IV-C3, IV-D3), with one work item per query.

    It belongs to the process that created it.

    Args:
        capacity: number of leaves, at least 1.
        fanout: children of a node (K), 2 to 256.
        dtype: floating-point type of priorities and sums.
        device: the device that stores the tree.
    """

    backend: ClassVar[str] = "device"

    def __init__(self, capacity: int, fanout: int, dtype: DTypeLike, device: TreeDevice) -> None:
        super().__init__(capacity, fanout, dtype)
        self._device = device
        nodes = [-(-self.capacity // self.fanout)]
        while nodes[0] > 1:
            nodes.insert(0, -(-nodes[0] // self.fanout))
        ends = 1 + np.cumsum([count * self.fanout for count in nodes])
        self._offsets = np.array([1, *ends[:-1]], dtype=np.int64)
        self._nodes = nodes
        below = self.capacity
        self._refined_level = 0
        while below > REFINED_LEAVES and self._refined_level + 1 < len(nodes):
            below = -(-below // self.fanout)
            self._refined_level += 1
        self._values = device.zeros(int(ends[-1]), self.dtype)
        self._winner = device.zeros(self.capacity, np.int32)
        self._wrong = device.zeros(2, np.int32)
        self._device_offsets = device.upload(self._offsets)

    def synchronise(self) -> None:
        self._check_process()
        self._total()  # a download waits for all earlier launches

    def _total(self) -> float:
        return float(self._device.download(self._values[:1])[0])

    def _find(self, prefix: NDArray[np.float64]) -> NDArray[np.int64]:
        if not prefix.size:
            return np.zeros(0, dtype=np.int64)
        rounded = prefix.astype(self.dtype)
        rounded_off = (prefix - rounded).astype(self.dtype)
        indices = self._device.zeros(len(prefix), np.int64)
        self._launch_find(
            self._device.upload(rounded), self._device.upload(rounded_off), indices, len(prefix)
        )
        found: NDArray[np.int64] = self._device.download(indices)
        return found

    def _update(self, indices: NDArray[np.int64], priorities: NDArray[np.float64]) -> None:
        if len(indices) > BATCH_MAX:
            raise ValueError(
                f"indices: found {len(indices)} of them; allowed: at most {BATCH_MAX} in one call"
            )
        leaves = self._device.upload(indices)
        self._launch_update(
            leaves, self._device.upload(priorities.astype(self.dtype)), len(indices), checked=True
        )

    def _get(self, indices: NDArray[np.int64]) -> NDArray[np.floating]:
        if not indices.size:
            return np.zeros(0, dtype=self.dtype)
        priorities = self._device.zeros(len(indices), self.dtype)
        leaves, count = np.int64(self._offsets[-1]), np.int64(len(indices))
        uploaded = self._device.upload(indices)
        self._device.launch("get", len(indices), self._values, leaves, uploaded, priorities, count)
        found: NDArray[np.floating] = self._device.download(priorities)
        return found

    def _launch_find(self, prefix: Any, rounded_off: Any, indices: Any, count: int) -> None:
        levels, fanout = np.int32(len(self._nodes)), np.int32(self.fanout)
        tree = (self._values, self._device_offsets, levels, fanout, np.int32(self._refined_level))
        self._device.launch("find", count, *tree, prefix, rounded_off, indices, np.int64(count))

    def _launch_update(self, indices: Any, priorities: Any, count: int, *, checked: bool) -> None:
        launch, length, wrong = self._device.launch, np.int64(count), self._wrong
        leaves = np.int64(self._offsets[-1])
        launch("begin", 1, wrong, np.int64(1))
        if not checked:
            limits = (np.int64(self.capacity), self.dtype.type(self.priority_max))
            launch("check", count, indices, priorities, *limits, wrong, length)
        launch("claim", count, indices, self._winner, wrong, length)
        launch("set_leaves", count, self._values, leaves, indices, priorities, self._winner, wrong, length)
        launch("release", count, indices, self._winner, wrong, length)
        parents = [*self._offsets[:-1], 0]  # the root's sum comes first
        leaves_below = self.fanout
        for depth in reversed(range(len(self._nodes))):
            children, above = self._offsets[depth], parents[depth - 1]
            every_node = count >= self._nodes[depth]
            size = self._nodes[depth] if every_node else count
            level = (self._values, np.int64(children), np.int64(above), np.int32(self.fanout))
            below = np.int64(min(leaves_below, np.iinfo(np.int64).max))
            launch("sum_nodes", size, *level, indices, below, np.int32(every_node), wrong, np.int64(size))
            leaves_below *= self.fanout
