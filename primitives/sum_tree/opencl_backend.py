"""The K-ary sum tree in OpenCL, with the kernels of `device_kernels.h`, on any device that has a driver."""

import warnings
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from placerl.primitives.device import opencl_runtime
from placerl.primitives.sum_tree.base import SumTree
from placerl.primitives.sum_tree.gpu.device_tree import DeviceSumTree, kernel_source

PRELUDE = """
#define LONG long
#define GLOBAL __global
#define KERNEL(name) __kernel void name
#define WORK_ITEM ((long)get_global_id(0))
#define ATOMIC_MAX(pointer, value) atomic_max(pointer, value)
"""
WORK_GROUP = 64


def unavailable_reason() -> str:
    """Return why this backend cannot be used here; empty if it can."""
    return opencl_runtime.unavailable_reason()


def create(capacity: int, fanout: int, *, dtype: DTypeLike = np.float32, device: str | int = "") -> SumTree:
    """Create an `OpenclSumTree`.

    Args:
        capacity: number of leaves.
        fanout: children of a node, K.
        dtype: float32 or float64.
        device: position in `opencl_runtime.devices()`, or part of a device's name; "" for the first device.
    """
    return OpenclSumTree(capacity, fanout, dtype, device)


@cache
def _built(device: Any, real: str, more: str) -> tuple[Any, Any]:
    """Return a context on the device and the program built in it, with `more` after the tree's kernels."""
    opencl = opencl_runtime.load()
    context = opencl.Context([device])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", opencl.CompilerWarning)  # some compilers warn that they succeeded
        program = opencl.Program(context, f"#define REAL {real}\n{PRELUDE}{kernel_source()}{more}").build()
    return context, program


class OpenclDevice:
    """An OpenCL device that holds a sum tree's arrays and runs its kernels in order, on one queue (`TreeDevice`).

    Args:
        device: the OpenCL device.
        dtype: floating-point type of the priorities.
        more: source of further kernels, which `launch` can then start.
    """

    def __init__(self, device: Any, dtype: np.dtype, more: str = "") -> None:
        opencl = opencl_runtime.load()
        import pyopencl.array

        self._array = pyopencl.array
        if dtype == np.float64 and not device.double_fp_config:
            raise ValueError(
                f"dtype: found float64; allowed: float32, as {device.name} has no double precision"
            )
        context, program = _built(device, "float" if dtype == np.float32 else "double", more)
        self._queue = opencl.CommandQueue(context)
        # Kernel objects keep their arguments, so each tree has its own.
        self._kernels = {kernel.function_name: kernel for kernel in program.all_kernels()}

    def zeros(self, shape: int, dtype: DTypeLike) -> Any:
        return self._array.zeros(self._queue, shape, dtype)

    def upload(self, values: NDArray[Any]) -> Any:
        return self._array.to_device(self._queue, values)

    def download(self, array: Any) -> NDArray[Any]:
        values: NDArray[Any] = array.get()
        return values

    def launch(self, name: str, size: int, *arguments: Any) -> None:
        items = -(-size // WORK_GROUP) * WORK_GROUP
        data = [
            argument.data if isinstance(argument, self._array.Array) else argument for argument in arguments
        ]
        self._kernels[name](self._queue, (items,), (WORK_GROUP,), *data)


class OpenclSumTree(DeviceSumTree):
    """A sum tree in an OpenCL device's memory."""

    backend = "opencl"

    def __init__(self, capacity: int, fanout: int, dtype: DTypeLike, device: str | int) -> None:
        chosen = opencl_runtime.choose(device)
        super().__init__(capacity, fanout, dtype, OpenclDevice(chosen, np.dtype(dtype)))
