"""The K-ary sum tree in OpenCL, on any device that has a driver."""

import numpy as np
from numpy.typing import DTypeLike

from placerl.primitives.device import opencl_runtime
from placerl.primitives.device.opencl import OpenclDevice
from placerl.primitives.sum_tree.base import SumTree
from placerl.primitives.sum_tree.gpu.device_tree import DeviceSumTree


def unavailable_reason() -> str:
    """Return why this backend cannot be used here; empty if it can."""
    return opencl_runtime.unavailable_reason()


def check_device(device: str | int) -> None:
    """Raise ValueError unless there is the OpenCL device, as for `create`."""
    opencl_runtime.choose(device)


def create(capacity: int, fanout: int, *, dtype: DTypeLike = np.float32, device: str | int = "") -> SumTree:
    """Create an `OpenclSumTree`.

    Args:
        dtype: float32 or float64.
        device: position in `opencl_runtime.devices()`, or part of a device's name; "" for the first device.
    """
    return OpenclSumTree(capacity, fanout, dtype, device)


class OpenclSumTree(DeviceSumTree):
    """A sum tree in an OpenCL device's memory."""

    backend = "opencl"

    def __init__(self, capacity: int, fanout: int, dtype: DTypeLike, device: str | int) -> None:
        super().__init__(capacity, fanout, dtype, OpenclDevice(opencl_runtime.choose(device)))
