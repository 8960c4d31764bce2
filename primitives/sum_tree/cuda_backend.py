"""The K-ary sum tree in CUDA through CuPy: the kernels of `device_kernels.h`, on the caller's stream.

Besides the interface of `SumTree`, which takes NumPy arrays, there are calls on arrays in the device's memory
(CuPy's or PyTorch's, taken through `__cuda_array_interface__` without a copy). These calls allocate nothing
and never wait for the device, so they can be captured in a CUDA graph.
"""

import re
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from placerl.primitives.interrupts import whole_imports
from placerl.primitives.sum_tree.base import SumTree
from placerl.primitives.sum_tree.gpu.device_tree import BATCH_MAX, DeviceSumTree, kernel_source

PRELUDE = """
#define LONG long long
#define GLOBAL
#define KERNEL(name) extern "C" __global__ void name
#define WORK_ITEM ((long long)blockIdx.x * blockDim.x + threadIdx.x)
#define ATOMIC_MAX(pointer, value) atomicMax(pointer, value)
#define WITH_DOUBLE
"""
THREADS_PER_BLOCK = 128


def source(dtype: DTypeLike, more: str = "") -> str:
    """Return the CUDA C++ source of the sum tree's kernels, followed by `more`.

    Args:
        dtype: floating-point type of the priorities.
        more: source of further kernels.
    """
    real = "float" if np.dtype(dtype) == np.float32 else "double"
    return f"#define REAL {real}\n{PRELUDE}{kernel_source()}{more}"


def unavailable_reason() -> str:
    """Return why this backend cannot be used here; empty if it can."""
    try:
        with whole_imports():
            import cupy
    except ImportError:
        return "CuPy is not installed: pip install 'placerl[gpu]'"
    try:
        return "" if cupy.cuda.runtime.getDeviceCount() else "no CUDA device"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no CUDA device: {error}"


def create(capacity: int, fanout: int, *, dtype: DTypeLike = np.float32, device: int = 0) -> SumTree:
    """Create a sum tree in a CUDA device's memory.

    Args:
        capacity: number of leaves.
        fanout: children of a node, K.
        dtype: floating-point type of the priorities.
        device: number of the CUDA device.
    """
    return CudaSumTree(capacity, fanout, dtype, device)


class CudaDevice:
    """A CUDA device that holds a sum tree's arrays and runs its kernels, on CuPy's current stream (`TreeDevice`).

    Args:
        number: number of the device.
        dtype: floating-point type of the priorities.
        more: source of further kernels, which `launch` can then start.
    """

    def __init__(self, number: int, dtype: np.dtype, more: str = "") -> None:
        import cupy

        self.cupy = cupy
        self.number = number
        with cupy.cuda.Device(number):
            code = source(dtype, more)
            module = cupy.RawModule(code=code, options=("--std=c++17",))
            names = re.findall(r"^KERNEL\((\w+)\)", code, re.MULTILINE)
            self._kernels = {name: module.get_function(name) for name in names}

    def zeros(self, shape: int, dtype: DTypeLike) -> Any:
        with self.cupy.cuda.Device(self.number):
            return self.cupy.zeros(shape, dtype)

    def upload(self, values: NDArray[Any]) -> Any:
        with self.cupy.cuda.Device(self.number):
            return self.cupy.asarray(values)

    def download(self, array: Any) -> NDArray[Any]:
        values: NDArray[Any] = self.cupy.asnumpy(array)
        return values

    def launch(self, name: str, size: int, *arguments: Any) -> None:
        blocks = -(-size // THREADS_PER_BLOCK)
        with self.cupy.cuda.Device(self.number):
            self._kernels[name]((blocks,), (THREADS_PER_BLOCK,), arguments)


class CudaSumTree(DeviceSumTree):
    """A sum tree in a CUDA device's memory.

    The calls that end in `_on_device` take contiguous (B,) device arrays of exactly the named type. They
    launch on the stream with the address `stream` (`torch.cuda.current_stream().cuda_stream`), or on CuPy's
    current stream.
    """

    backend = "cuda"

    def __init__(self, capacity: int, fanout: int, dtype: DTypeLike, device: int) -> None:
        super().__init__(capacity, fanout, dtype, CudaDevice(device, np.dtype(dtype)))
        self._cuda: Any = self._device
        self._scratch: dict[
            int, tuple[Any, Any]
        ] = {}  # by powers of two: graphs keep using what they captured

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
        with self._on(stream):
            if size not in self._scratch:  # made on the stream, where the kernels write it after the zeros
                zeros = self._cuda.zeros
                self._scratch[size] = zeros(size, self.dtype), zeros(size, self.dtype)
            prefix, rounded_off = self._scratch[size]
            self._cuda.launch("scale", count, uniform, self._values, prefix, rounded_off, np.int64(count))
            self._launch_find(prefix, rounded_off, indices, count)

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
        with self._on(stream):
            self._launch_update(indices, priorities, len(indices), checked=False)

    def synchronise(self) -> None:
        """Wait until the device has done all operations, on every stream."""
        self._check_process()
        self._cuda.cupy.cuda.Device(self._cuda.number).synchronize()

    def raise_if_wrong(self) -> None:
        """Wait for the device and raise if an earlier update was wrong.

        Raises:
            ValueError: an `update_on_device` since the last call of this method had a wrong index or
                priority.
        """
        self.synchronise()  # updates may be on other streams than CuPy's current one, which copies and fills
        if self._device.download(self._wrong)[1]:
            self._wrong.fill(0)
            self.synchronise()
            raise ValueError(
                f"update_on_device: found a wrong index or priority; allowed: indices 0 to {self.capacity - 1}, "
                f"priorities 0 to {self.priority_max:.4g}"
            )

    def _array(self, name: str, value: Any, dtype: np.dtype, size: int | None = None) -> Any:
        if not hasattr(value, "__cuda_array_interface__"):
            raise TypeError(f"{name}: found {type(value).__name__}; allowed: an array in CUDA memory")
        array = self._cuda.cupy.asarray(value)
        if array.dtype != dtype:
            raise TypeError(f"{name}: found dtype {array.dtype}; allowed: {dtype}")
        contiguous = array.ndim == 1 and array.flags.c_contiguous
        if not contiguous or not 1 <= len(array) <= BATCH_MAX or len(array) != (size or len(array)):
            wanted = f"({size},)" if size else "(B,)"
            raise ValueError(f"{name}: found shape {array.shape}; allowed: contiguous {wanted}")
        return array

    def _on(self, stream: int | None) -> Any:
        cuda = self._cuda.cupy.cuda
        return cuda.get_current_stream() if stream is None else cuda.ExternalStream(stream)
