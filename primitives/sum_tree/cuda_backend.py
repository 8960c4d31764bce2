"""The K-ary sum tree in CUDA, on CuPy's current stream."""

import numpy as np
from numpy.typing import DTypeLike

from placerl.primitives.device import cuda
from placerl.primitives.sum_tree.base import SumTree
from placerl.primitives.sum_tree.gpu.device_tree import DeviceSumTree


def unavailable_reason() -> str:
    """Return why this backend cannot be used here; empty if it can."""
    return cuda.unavailable_reason()


check_device = cuda.check_device


def create(capacity: int, fanout: int, *, dtype: DTypeLike = np.float32, device: str | int = 0) -> SumTree:
    """Create a sum tree in a CUDA device's memory."""
    return CudaSumTree(capacity, fanout, dtype, int(device))


class CudaSumTree(DeviceSumTree):
    """A sum tree in a CUDA device's memory."""

    backend = "cuda"

    def __init__(self, capacity: int, fanout: int, dtype: DTypeLike, device: int) -> None:
        super().__init__(capacity, fanout, dtype, cuda.create(device))
