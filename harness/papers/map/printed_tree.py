"""Runs MAP's Algorithms 1 and 2 on a device, as printed and with each correction. Only MAP's own claims use them.

Algorithm 2 as printed has three faults, each of which `Fixes` corrects: the change has the wrong sign (old minus new
priority, line 5, is added in line 8), the root is never updated (line 6 ends before it), and items of one batch with
the same index may all read the same old priority. RECONSTRUCTED: the available copy has lost the operator of line 5,
which is taken as a minus, and may have lost lines after line 9. Algorithm 1 may find a leaf of priority 0 if the total
was rounded up. Updates add differences to the sums, which therefore drift, so this is not a backend.
"""

from enum import IntFlag
from importlib.resources import files

import numpy as np
from numpy.typing import ArrayLike, NDArray

from placerl.primitives.device import Buffer, Device, Stream, create, unavailable_reason
from placerl.primitives.sum_tree.base import checked_vector
from placerl.primitives.sum_tree.gpu.device_tree import DeviceSumTree

REAL = np.dtype(np.float32)
_KINDS = ("cuda", "opencl")


class Fixes(IntFlag):
    """Corrections of MAP's Algorithm 2, which can be combined.

    SIGN adds the new priority minus the old one, ROOT also updates the root, and EXCHANGE reads the old priority and
    writes the new one in a single step. NONE is the algorithm as printed, and ALL has all three corrections.
    """

    NONE = 0
    SIGN = 1
    ROOT = 2
    EXCHANGE = 4
    ALL = SIGN | ROOT | EXCHANGE


def kernel_source() -> str:
    """Return the source of the kernels of MAP's Algorithms 1 and 2, which follow the sum tree's."""
    return files(__package__).joinpath("printed_kernels.h").read_text()


def device_names() -> tuple[str, ...]:
    """Return the names of this machine's devices for the trees: "cuda", and "opencl" for its first OpenCL device."""
    return tuple(name for name in _KINDS if not unavailable_reason(name))


def device(name: str) -> Device:
    """Return this machine's first device of a name in `device_names`."""
    return create(name)


class PrintedSumTree(DeviceSumTree):
    """A float32 sum tree that finds leaves as MAP's Algorithm 1 does and updates them as Algorithm 2 does.

    Args:
        fixes: corrections of Algorithm 2; by default none, as printed.
    """

    backend = "printed"

    def __init__(self, capacity: int, fanout: int, device: Device, fixes: Fixes = Fixes.NONE) -> None:
        super().__init__(capacity, fanout, REAL, device, kernel_source())
        self.fixes = fixes
        counts = [self.capacity]
        while len(counts) < len(self._nodes):
            counts.insert(0, -(-counts[0] // self.fanout))
        self._level_counts = np.array(counts, np.int64)
        self._counts = self._stream.uploaded(self._level_counts)

    def fill(self, priorities: ArrayLike) -> None:
        """Set all priorities, with the project's update level by level: the printed one could not fill an empty tree.

        Args:
            priorities: (capacity,) real, each in [0, priority_max].
        """
        stream = self._stream
        values = stream.uploaded(checked_vector("priorities", priorities).astype(self.dtype))
        every = stream.uploaded(np.arange(self.capacity))
        super().launch_update(stream, every, values, self.capacity)

    def levels(self) -> list[NDArray[np.floating]]:
        """Return the values of every level of the tree, from the root to the leaves, one array per level."""
        values = self._stream.download(self._values, self._size, self.dtype)
        begin = zip(self._offsets, self._level_counts, strict=True)
        return [values[:1], *(values[first : first + count] for first, count in begin)]

    def launch_find(
        self, stream: Stream, prefix: Buffer, rounded_off: Buffer, indices: Buffer, count: int
    ) -> None:
        tree = (self._values, self._device_offsets, self._counts)
        sizes = np.int32(len(self._nodes)), np.int32(self.fanout)
        kernel = self._kernels["printed_find"]
        stream.launch(kernel, count, *tree, *sizes, prefix, indices, np.int64(count))

    def launch_update(self, stream: Stream, indices: Buffer, priorities: Buffer, count: int) -> None:
        tree = (self._values, self._device_offsets, np.int32(len(self._nodes)), np.int32(self.fanout))
        last = np.int32(self.fixes), np.int64(count)
        stream.launch(self._kernels["printed_update"], count, *tree, indices, priorities, *last)
