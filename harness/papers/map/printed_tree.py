"""Runs MAP's Algorithms 1 and 2 on a device, as printed and with each correction. Only MAP's own claims use them.

Algorithm 2 as printed has three faults, each of which `Fixes` corrects: the change has the wrong sign (old minus new
priority, line 5, is added in line 8), the root is never updated (line 6 ends before it), and items of one batch with
the same index may all read the same old priority. RECONSTRUCTED: the available copy has lost the operator of line 5,
which is taken as a minus, and may have lost lines after line 9. Algorithm 1 may find a leaf of priority 0 if the total
was rounded up. Updates add differences to the sums, which therefore drift, so this is not a backend.
"""

from enum import IntFlag
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from placerl.primitives.device import opencl_runtime
from placerl.primitives.sum_tree import cuda_backend
from placerl.primitives.sum_tree.base import checked_vector
from placerl.primitives.sum_tree.cuda_backend import CudaDevice
from placerl.primitives.sum_tree.gpu.device_tree import DeviceSumTree, TreeDevice
from placerl.primitives.sum_tree.opencl_backend import OpenclDevice

REAL = np.dtype(np.float32)
_CUDA_ATOMICS = """
#define ATOMIC_ADD(pointer, value) atomicAdd(pointer, value)
#define ATOMIC_EXCHANGE(pointer, value) atomicExch(pointer, value)
"""
# OpenCL 1.2 has no atomic addition of floats.
_OPENCL_ATOMICS = """
#define ATOMIC_ADD(pointer, value) add_atomically(pointer, value)
#define ATOMIC_EXCHANGE(pointer, value) atomic_xchg(pointer, value)
void add_atomically(volatile __global float *pointer, float value) {
    volatile __global int *bits = (volatile __global int *)pointer;
    int seen = *bits;
    for (;;) {
        const int found = atomic_cmpxchg(bits, seen, as_int(as_float(seen) + value));
        if (found == seen)
            return;
        seen = found;
    }
}
"""


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
    """Return the source of the kernels of MAP's Algorithms 1 and 2, in the language that OpenCL, CUDA and C++ share.

    The atomic operations, which differ between the three, are not included.
    """
    return files(__package__).joinpath("printed_kernels.h").read_text()


def cuda_source() -> str:
    """Return the CUDA source of MAP's Algorithms 1 and 2, with atomics, to compile after the sum tree's kernels."""
    return _CUDA_ATOMICS + kernel_source()


def opencl_source() -> str:
    """Return the OpenCL source of MAP's Algorithms 1 and 2, with atomics, to compile after the sum tree's kernels."""
    return _OPENCL_ATOMICS + kernel_source()


def device_names() -> tuple[str, ...]:
    """Return the names of this machine's devices for the trees: "cuda", and "opencl" for its first OpenCL device."""
    reasons = {"cuda": cuda_backend.unavailable_reason(), "opencl": opencl_runtime.unavailable_reason()}
    return tuple(name for name, reason in reasons.items() if not reason)


def device(name: str) -> TreeDevice:
    """Return a device with the kernels of the sum tree and of MAP's Algorithms 1 and 2.

    Args:
        name: name of the device, one of `device_names`: "cuda" or "opencl".
    """
    if name == "cuda":
        return CudaDevice(0, REAL, cuda_source())
    return OpenclDevice(opencl_runtime.choose(""), REAL, opencl_source())


class PrintedSumTree(DeviceSumTree):
    """A float32 sum tree that finds leaves as MAP's Algorithm 1 does and updates them as Algorithm 2 does.

    Args:
        capacity: number of leaves.
        fanout: K, children of a node.
        device: a device with the kernels of both algorithms (`device`).
        fixes: corrections of Algorithm 2; by default none, as printed.
    """

    backend = "printed"

    def __init__(self, capacity: int, fanout: int, device: TreeDevice, fixes: Fixes = Fixes.NONE) -> None:
        super().__init__(capacity, fanout, REAL, device)
        self.fixes = fixes
        counts = [self.capacity]
        while len(counts) < len(self._nodes):
            counts.insert(0, -(-counts[0] // self.fanout))
        self._counts = device.upload(np.array(counts, np.int64))

    def fill(self, priorities: ArrayLike) -> None:
        """Set all priorities, with the project's update level by level: the printed one could not fill an empty tree.

        Args:
            priorities: (capacity,) real, each in [0, priority_max].
        """
        values = self._device.upload(checked_vector("priorities", priorities).astype(self.dtype))
        every = self._device.upload(np.arange(self.capacity))
        super()._launch_update(every, values, self.capacity, checked=True)

    def levels(self) -> list[NDArray[np.floating]]:
        """Return the values of every level of the tree, from the root to the leaves, one array per level."""
        values = self._device.download(self._values)
        counts = self._device.download(self._counts)
        begin = zip(self._offsets, counts, strict=True)
        return [values[:1], *(values[first : first + count] for first, count in begin)]

    def _launch_find(self, prefix: Any, rounded_off: Any, indices: Any, count: int) -> None:
        tree = (self._values, self._device_offsets, self._counts)
        sizes = np.int32(len(self._nodes)), np.int32(self.fanout)
        self._device.launch("printed_find", count, *tree, *sizes, prefix, indices, np.int64(count))

    def _launch_update(self, indices: Any, priorities: Any, count: int, *, checked: bool) -> None:
        tree = (self._values, self._device_offsets, np.int32(len(self._nodes)), np.int32(self.fanout))
        last = np.int32(self.fixes), np.int64(count)
        self._device.launch("printed_update", count, *tree, indices, priorities, *last)
