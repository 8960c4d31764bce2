"""The sum tree on any device: its layout in memory, and the kernels of each operation (`device_kernels.h`)."""

from importlib.resources import files
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from placerl.primitives.device import Buffer, Device, Stream
from placerl.primitives.sum_tree.own_process import OwnProcessSumTree

# The largest batch: positions in a batch are kept in 32-bit integers.
BATCH_MAX = 2**31 - 2
# A float32 distinguishes about 2^24 prefixes, which is enough in a node with this many leaves below it.
REFINED_LEAVES = 4096
WRONG = np.dtype(np.int32)
"""Type of the two marks of a wrong update."""


def kernel_source(dtype: DTypeLike, *, with_double: bool = True) -> str:
    """Return the source of the kernels, in the language that all devices share.

    Args:
        dtype: floating-point type of the priorities, float32 or float64.
        with_double: whether the device has double precision.
    """
    real = "float" if np.dtype(dtype) == np.float32 else "double"
    names = ("device_kernels.h", *(["double_kernels.h"] if with_double else []))
    return f"#define REAL {real}\n" + "\n".join(
        files(__package__).joinpath(name).read_text() for name in names
    )


class DeviceSumTree(OwnProcessSumTree):
    """A K-ary sum tree in one buffer of a device (MAP IV-C3, IV-D3), with one work item per query.

    It belongs to the process that created it.

    Args:
        dtype: floating-point type of priorities and sums.
        more: source of further kernels, for a subclass.

    Raises:
        ValueError: the device has no double precision and `dtype` is float64.
    """

    backend: ClassVar[str] = "device"

    def __init__(self, capacity: int, fanout: int, dtype: DTypeLike, device: Device, more: str = "") -> None:
        super().__init__(capacity, fanout, dtype)
        if self.dtype == np.float64 and not device.has_double:
            raise ValueError(
                f"dtype: found float64; allowed: float32, as {device.name} has no double precision"
            )
        self._device, self._stream = device, device.usual_stream()
        source = kernel_source(self.dtype, with_double=device.has_double)
        self._kernels = device.kernels(source + more)
        nodes = [-(-self.capacity // self.fanout)]
        while nodes[0] > 1:
            nodes.insert(0, -(-nodes[0] // self.fanout))
        ends = 1 + np.cumsum([count * self.fanout for count in nodes])
        self._offsets = np.array([1, *ends[:-1]], dtype=np.int64)
        self._nodes, self._size = nodes, int(ends[-1])
        below = self.capacity
        self._refined_level = 0
        while below > REFINED_LEAVES and self._refined_level + 1 < len(nodes):
            below = -(-below // self.fanout)
            self._refined_level += 1
        self._values = self._stream.zeros(self._size * self.dtype.itemsize)
        self._winner = self._stream.zeros(self.capacity * WRONG.itemsize)
        self._wrong = self._stream.zeros(2 * WRONG.itemsize)
        self._device_offsets = self._stream.uploaded(self._offsets)
        self._stream.finish()  # calls on other streams do not wait for this one

    @property
    def device(self) -> Device:
        """The device that stores the tree."""
        return self._device

    @property
    def values(self) -> Buffer:
        """The nodes' sums, of the tree's dtype: the total first, the leaves from `first_leaf` on."""
        return self._values

    @property
    def first_leaf(self) -> int:
        """The position of leaf 0 in `values`."""
        return int(self._offsets[-1])

    def synchronise(self) -> None:
        self._check_process()
        self._stream.finish()

    def _total(self) -> float:
        return float(self._stream.download(self._values, (), self.dtype))

    def _find(self, prefix: NDArray[np.float64]) -> NDArray[np.int64]:
        if not prefix.size:
            return np.zeros(0, dtype=np.int64)
        rounded = prefix.astype(self.dtype)
        rounded_off = (prefix - rounded).astype(self.dtype)
        stream = self._stream
        indices = self._device.allocate(prefix.nbytes)
        self.launch_find(stream, stream.uploaded(rounded), stream.uploaded(rounded_off), indices, len(prefix))
        return stream.download(indices, len(prefix), np.int64)

    def _update(self, indices: NDArray[np.int64], priorities: NDArray[np.float64]) -> None:
        if len(indices) > BATCH_MAX:
            raise ValueError(
                f"indices: found {len(indices)} of them; allowed: at most {BATCH_MAX} in one call"
            )
        stream = self._stream
        values = stream.uploaded(priorities.astype(self.dtype))
        self.launch_update(stream, stream.uploaded(indices), values, len(indices))

    def _get(self, indices: NDArray[np.int64]) -> NDArray[np.floating]:
        if not indices.size:
            return np.zeros(0, dtype=self.dtype)
        stream = self._stream
        priorities = self._device.allocate(len(indices) * self.dtype.itemsize)
        leaves, count = np.int64(self._offsets[-1]), np.int64(len(indices))
        uploaded = stream.uploaded(indices)
        stream.launch(self._kernels["get"], len(indices), self._values, leaves, uploaded, priorities, count)
        return stream.download(priorities, len(indices), self.dtype)

    def launch_find(
        self, stream: Stream, prefix: Buffer, rounded_off: Buffer, indices: Buffer, count: int
    ) -> None:
        """Start to find the leaves of prefixes.

        Args:
            prefix, rounded_off: (B,) of the tree's dtype, whose sums are the prefixes, in [0, total).
            indices: (B,) int64, written.
        """
        levels, fanout = np.int32(len(self._nodes)), np.int32(self.fanout)
        tree = (self._values, self._device_offsets, levels, fanout, np.int32(self._refined_level))
        stream.launch(self._kernels["find"], count, *tree, prefix, rounded_off, indices, np.int64(count))

    def launch_update(self, stream: Stream, indices: Buffer, priorities: Buffer, count: int) -> None:
        """Start an update; where `launch_check` marked a wrong index or priority, it changes nothing.

        Args:
            indices: (B,) int64.
            priorities: (B,) of the tree's dtype.
        """
        length, wrong = np.int64(count), self._wrong

        def launch(name: str, size: int, *arguments: Any) -> None:
            stream.launch(self._kernels[name], size, *arguments)

        leaves = np.int64(self._offsets[-1])
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
            self._launch_sums(
                stream, size, *level, indices, below, np.int32(every_node), wrong, np.int64(size)
            )
            leaves_below *= self.fanout

    def _launch_sums(self, stream: Stream, size: int, *arguments: Any) -> None:
        """Start to sum nodes of a level again, with the arguments of the kernel `sum_nodes`."""
        stream.launch(self._kernels["sum_nodes"], size, *arguments)

    def launch_checked_update(self, stream: Stream, indices: Buffer, priorities: Buffer, count: int) -> None:
        """Start an update that checks on the device, and changes nothing where an index or priority is wrong.

        `was_wrong` tells of it later. Arguments as `launch_update`.
        """
        limits = np.int64(self.capacity), self.dtype.type(self.priority_max)
        check = self._kernels["check"]
        stream.launch(check, count, indices, priorities, *limits, self._wrong, np.int64(count))
        self.launch_update(stream, indices, priorities, count)
        stream.clear(self._wrong, WRONG.itemsize)  # of this update; the second mark stays

    def was_wrong(self) -> bool:
        """Return whether a checked update since the last call was wrong; waits for the tree's usual stream alone."""
        wrong = bool(self._stream.download(self._wrong, 2, WRONG)[1])
        if wrong:
            self._stream.clear(self._wrong, 2 * WRONG.itemsize)
            self._stream.finish()
        return wrong
