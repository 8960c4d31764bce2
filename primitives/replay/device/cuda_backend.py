"""Keep a replay's rows in a CUDA device's memory, through CuPy, where a PyTorch learner reads them without the host."""

from typing import Any

import numpy as np
import numpy.typing as npt

from primitives.replay.device.device_storage import Gather
from primitives.replay.device.packed_rows import kernel_source
from primitives.sum_tree import cuda_backend as cuda_tree

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
    """Return an object that keeps rows of a replay in the memory of the CUDA device with this number."""
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

    def allocate(self, size_bytes: int) -> Any:
        """Return a new buffer on the device, not initialised; see `RowMemory.allocate`."""
        with self._cupy.cuda.Device(self._number):
            try:
                return self._cupy.empty(size_bytes, np.uint8)
            except self._cupy.cuda.memory.OutOfMemoryError as error:
                raise MemoryError(f"CUDA device {self._number}: {error}") from error

    def upload(self, buffer: Any, offset_bytes: int, values: npt.NDArray) -> None:
        """Copy an array from the host into a buffer; see `RowMemory.upload`."""
        flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        with self._cupy.cuda.Device(self._number), self._stream:
            buffer[offset_bytes : offset_bytes + flat.size].set(flat)
            self._stream.synchronize()

    def download(self, buffer: Any, size_bytes: int) -> npt.NDArray[np.uint8]:
        """Return the first bytes of a buffer as an array on the host; see `RowMemory.download`."""
        with self._cupy.cuda.Device(self._number), self._stream:
            values: npt.NDArray[np.uint8] = self._cupy.asnumpy(buffer[:size_bytes])
        return values

    def gather(self, gather: Gather, stream: Any) -> Any:
        """Start to copy columns of sampled rows (a gather) on a CUDA stream, and return an event for `wait`.

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
        """Wait until the gather of this event is done."""
        started.synchronize()
