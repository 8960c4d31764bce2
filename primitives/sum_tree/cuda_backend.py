"""The K-ary sum tree in CUDA, on CuPy's current stream or on the caller's.

Besides the interface of `SumTree`, which takes NumPy arrays, there are calls on arrays in the device's memory
(CuPy's or PyTorch's, taken through `__cuda_array_interface__` without a copy). These calls allocate nothing
and never wait for the device, so they can be captured in a CUDA graph.
"""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from placerl.primitives.device import Stream, cuda
from placerl.primitives.sum_tree.base import SumTree
from placerl.primitives.sum_tree.gpu.device_tree import BATCH_MAX, DeviceSumTree


def unavailable_reason() -> str:
    """Return why this backend cannot be used here; empty if it can."""
    return cuda.unavailable_reason()


check_device = cuda.check_device


def create(capacity: int, fanout: int, *, dtype: DTypeLike = np.float32, device: str | int = 0) -> SumTree:
    """Create a sum tree in a CUDA device's memory."""
    return CudaSumTree(capacity, fanout, dtype, int(device))


class CudaSumTree(DeviceSumTree):
    """A sum tree in a CUDA device's memory.

    The calls that end in `_on_device` take contiguous (B,) device arrays of exactly the named type. They
    launch on the stream with the address `stream` (`torch.cuda.current_stream().cuda_stream`), or on CuPy's
    current stream.
    """

    backend = "cuda"

    def __init__(self, capacity: int, fanout: int, dtype: DTypeLike, device: int) -> None:
        self._cuda = cuda.create(device)
        super().__init__(capacity, fanout, dtype, self._cuda)
        # By powers of two: graphs keep using what they captured.
        self._scratch: dict[int, tuple[Any, Any]] = {}

    def sample_on_device(self, uniform: Any, indices: Any, *, stream: int | None = None) -> None:
        """Draw leaves with replacement, each with probability P[i] / total, without waiting for the device.

        If the total is 0, leaf 0 is drawn, because the host does not read the total here. The first call with a batch
        size allocates scratch space, which all batch sizes up to the next power of two share. So make one call before
        capturing a CUDA graph, and let calls on different streams wait for each other.

        Args:
            uniform: (B,) float64 on the device, uniform in [0, 1).
            indices: (B,) int64 on the device, written.
            stream: address of a CUDA stream.

        Raises:
            TypeError: an array is not on the device, or of another type.
            ValueError: an array is not contiguous, or shapes differ.
        """
        self._check_process()
        uniform = self._array("uniform", uniform, np.dtype(np.float64))
        indices = self._array("indices", indices, np.dtype(np.int64), len(uniform))
        count = len(uniform)
        size = 1 << (count - 1).bit_length()
        used = self._on(stream)
        if size not in self._scratch:  # made on the stream, where the kernels write it after the zeros
            size_bytes = size * self.dtype.itemsize
            self._scratch[size] = used.zeros(size_bytes), used.zeros(size_bytes)
        prefix, rounded_off = self._scratch[size]
        scale = self._kernels["scale"]
        used.launch(scale, count, uniform, self._values, prefix, rounded_off, np.int64(count))
        self.launch_find(used, prefix, rounded_off, indices, count)

    def update_on_device(self, indices: Any, priorities: Any, *, stream: int | None = None) -> None:
        """Set P[indices[b]] = priorities[b]; if an index is repeated, its last priority is kept.

        If an index or a priority is not allowed, the tree is unchanged and `raise_if_wrong` raises an error.

        Args:
            indices: (B,) int64 on the device, in [0, capacity).
            priorities: (B,) of the tree's dtype on the device, in [0, priority_max].
            stream: address of a CUDA stream.

        Raises:
            TypeError: an array is not on the device, or of another type.
            ValueError: an array is not contiguous, or shapes differ.
        """
        self._check_process()
        indices = self._array("indices", indices, np.dtype(np.int64))
        priorities = self._array("priorities", priorities, self.dtype, len(indices))
        self.launch_checked_update(self._on(stream), indices, priorities, len(indices))

    def synchronise(self) -> None:
        """Wait until the device has done all operations, on every stream."""
        self._check_process()
        self._cuda.finish()

    def raise_if_wrong(self) -> None:
        """Wait for the device and raise if an earlier update was wrong.

        Raises:
            ValueError: an `update_on_device` since the last call of this method had a wrong index or
                priority.
        """
        self.synchronise()  # updates may be on other streams than CuPy's current one, which copies and clears
        if self.was_wrong():
            self.synchronise()
            raise ValueError(
                f"update_on_device: found a wrong index or priority; allowed: indices 0 to {self.capacity - 1}, "
                f"priorities 0 to {self.priority_max:.4g}"
            )

    def _array(self, name: str, value: Any, dtype: np.dtype, size: int | None = None) -> Any:
        if not hasattr(value, "__cuda_array_interface__"):
            raise TypeError(f"{name}: found {type(value).__name__}; allowed: an array in CUDA memory")
        array = self._cuda.adopted(value)
        if array.dtype != dtype:
            raise TypeError(f"{name}: found dtype {array.dtype}; allowed: {dtype}")
        contiguous = array.ndim == 1 and array.flags.c_contiguous
        if not contiguous or not 1 <= len(array) <= BATCH_MAX or len(array) != (size or len(array)):
            wanted = f"({size},)" if size else "(B,)"
            raise ValueError(f"{name}: found shape {array.shape}; allowed: contiguous {wanted}")
        return array

    def _on(self, stream: int | None) -> Stream:
        return self._stream if stream is None else self._cuda.stream_at(stream)
