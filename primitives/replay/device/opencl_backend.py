"""Keep a replay's rows in an OpenCL device's memory, where a learner of backend "opencl" reads them."""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from placerl.primitives.device import opencl_runtime
from placerl.primitives.replay.device.device_storage import Gather, RowMemory, memory_of
from placerl.primitives.replay.device.packed_rows import kernel_source

PRELUDE = """
#define BYTE uchar
#define LONG long
#define GLOBAL __global
#define KERNEL(name) __kernel void name
#define WORK_ITEM ((long)get_global_id(0))
"""
WORK_GROUP = 64


def unavailable_reason() -> str:
    """Return why this backend cannot be used here; empty if it can."""
    return opencl_runtime.unavailable_reason()


def create(device: str | int = "cpu") -> "OpenclRows":
    """Return an object that keeps rows of a replay in an OpenCL device's memory.

    Args:
        device: a position in `opencl_runtime.devices()`, a part of a device's name, or "cpu" for the first CPU.

    Raises:
        ValueError: there is no such device.
    """
    return OpenclRows(opencl_runtime.choose_for_learner(device))


@cache
def _program(device: Any) -> Any:
    opencl = opencl_runtime.load()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", opencl.CompilerWarning)  # some compilers warn that they succeeded
        return opencl.Program(opencl_runtime.context(device), PRELUDE + kernel_source()).build()


class OpenclRows:
    """Keeps a replay's rows in the memory of one OpenCL device; implements `RowMemory`.

    `place` is ("opencl", device). A stream is a command queue of the device's context (`opencl_runtime.context`).

    Args:
        device: the OpenCL device, as pyopencl lists it.
    """

    def __init__(self, device: Any) -> None:
        self._opencl = opencl_runtime.load()
        self.place = ("opencl", device)
        self._context = opencl_runtime.context(device)
        self._largest_bytes = device.max_mem_alloc_size
        self._name = device.name
        self._queue = self._opencl.CommandQueue(self._context)
        self._kernel = self._opencl.Kernel(_program(device), "gather_rows")

    def __reduce__(self) -> tuple[Callable[..., RowMemory], tuple[str, int]]:
        return memory_of, ("opencl", opencl_runtime.devices().index(self.place[1]))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # the device is no part of what a storage holds

    def allocate(self, size_bytes: int) -> Any:
        """Return a new buffer on the device, not initialised.

        Args:
            size_bytes: size of the buffer.

        Raises:
            MemoryError: the device has no buffer of this size.
        """
        if size_bytes > self._largest_bytes:
            raise MemoryError(
                f"{self._name}: found a buffer of {size_bytes} bytes; allowed: {self._largest_bytes}"
            )
        return self._opencl.Buffer(self._context, self._opencl.mem_flags.READ_WRITE, size_bytes)

    def upload(self, buffer: Any, offset_bytes: int, values: npt.NDArray) -> None:
        """Copy an array from the host into a buffer.

        Args:
            buffer: the buffer.
            offset_bytes: first byte of the buffer that is written.
            values: the array; it may be changed when the call returns.
        """
        self._opencl.enqueue_copy(self._queue, buffer, values, dst_offset=offset_bytes)

    def download(self, buffer: Any, size_bytes: int) -> npt.NDArray[np.uint8]:
        """Return a copy of the first `size_bytes` bytes of a buffer, as an array on the host."""
        values = np.empty(size_bytes, np.uint8)
        self._opencl.enqueue_copy(self._queue, values, buffer)
        return values

    def gather(self, gather: Gather, stream: Any) -> Any:
        """Start to copy columns of sampled rows (a gather) on a command queue, and return an event for `wait`.

        Args:
            gather: the rows and columns to copy, and where to.
            stream: the command queue, in whose order the copy runs; None for this object's own.
        """
        count = gather.units * gather.batch_size
        items = -(-count // WORK_GROUP) * WORK_GROUP
        self._kernel.set_args(
            gather.rows,
            np.int64(gather.row_bytes),
            gather.indices,
            gather.table,
            np.int32(gather.columns),
            np.int64(gather.units),
            gather.target,
            np.int64(count),
        )
        queue = stream or self._queue
        return self._opencl.enqueue_nd_range_kernel(queue, self._kernel, (items,), (WORK_GROUP,))

    def wait(self, started: Any) -> None:
        """Wait until a gather is done; `started` is the event that `gather` returned."""
        started.wait()
