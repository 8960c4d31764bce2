"""Keep a replay's rows in a CUDA device's memory, through CuPy, where a PyTorch learner reads them without the host."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from placerl.primitives.replay.device.device_storage import Gather, RowMemory, memory_of
from placerl.primitives.replay.device.packed_rows import kernel_source
from placerl.primitives.sum_tree import cuda_backend as cuda_tree

PRELUDE = """
#define BYTE unsigned char
#define LONG long long
#define GLOBAL
#define KERNEL(name) extern "C" __global__ void name
#define WORK_ITEM ((long long)blockIdx.x * blockDim.x + threadIdx.x)
"""
THREADS_PER_BLOCK = 128


def source() -> str:
    """Return the CUDA C++ source of the kernel that gathers sampled rows."""
    return PRELUDE + kernel_source()


def unavailable_reason() -> str:
    """Return why this backend cannot be used here; empty if it can."""
    return cuda_tree.unavailable_reason()


def create(device: str | int = 0) -> "CudaRows":
    """Return an object that keeps rows of a replay in a CUDA device's memory.

    Args:
        device: number of the CUDA device.
    """
    import cupy

    return CudaRows(cupy, int(device))


class CudaRows:
    """Keeps a replay's rows in the memory of one CUDA device; implements `RowMemory`.

    `place` is ("cuda", number). A stream is given by the address of the CUDA stream.

    Args:
        cupy: the module `cupy`.
        number: number of the device.
    """

    def __init__(self, cupy: Any, number: int) -> None:
        self.place = ("cuda", number)
        self._cupy, self._number = cupy, number
        with cupy.cuda.Device(number):
            module = cupy.RawModule(code=source(), options=("--std=c++17",))
            self._kernel = module.get_function("gather_rows")
            self._stream = cupy.cuda.Stream(non_blocking=True)

    def __reduce__(self) -> tuple[Callable[..., RowMemory], tuple[str, int]]:
        return memory_of, ("cuda", self._number)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # the device is no part of what a storage holds

    def allocate(self, size_bytes: int) -> Any:
        """Return a new buffer on the device, not initialised.

        Args:
            size_bytes: size of the buffer.

        Raises:
            MemoryError: the device has no buffer of this size.
        """
        with self._cupy.cuda.Device(self._number):
            try:
                return self._cupy.empty(size_bytes, np.uint8)
            except self._cupy.cuda.memory.OutOfMemoryError as error:
                raise MemoryError(f"CUDA device {self._number}: {error}") from error

    def upload(self, buffer: Any, offset_bytes: int, values: npt.NDArray) -> None:
        """Copy an array from the host into a buffer.

        Args:
            buffer: the buffer.
            offset_bytes: first byte of the buffer that is written.
            values: the array; it may be changed when the call returns.
        """
        flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        with self._cupy.cuda.Device(self._number), self._stream:
            buffer[offset_bytes : offset_bytes + flat.size].set(flat)
            self._stream.synchronize()

    def download(self, buffer: Any, size_bytes: int) -> npt.NDArray[np.uint8]:
        """Return a copy of the first `size_bytes` bytes of a buffer, as an array on the host."""
        with self._cupy.cuda.Device(self._number), self._stream:
            values: npt.NDArray[np.uint8] = self._cupy.asnumpy(buffer[:size_bytes])
        return values

    def gather(self, gather: Gather, stream: Any) -> Any:
        """Start to copy columns of sampled rows (a gather) on a CUDA stream, and return an event for `wait`.

        Args:
            gather: the rows and columns to copy, and where to.
            stream: address of the CUDA stream, in whose order the copy runs; None for this object's own.

        `gather.target` may be any array in the device's memory that CuPy can read, such as a PyTorch tensor.
        """
        count = gather.units * gather.batch_size
        used = self._stream if stream is None else self._cupy.cuda.ExternalStream(stream)
        with self._cupy.cuda.Device(self._number), used:
            arguments = (
                gather.rows,
                np.int64(gather.row_bytes),
                gather.indices,
                gather.table,
                np.int32(gather.columns),
                np.int64(gather.units),
                self._cupy.asarray(gather.target),
                np.int64(count),
            )
            blocks = -(-count // THREADS_PER_BLOCK)
            self._kernel((blocks,), (THREADS_PER_BLOCK,), arguments)
            return used.record()

    def wait(self, started: Any) -> None:
        """Wait until a gather is done; `started` is the event that `gather` returned."""
        started.synchronize()
