"""Every kind of device memory, for the conformance suite."""

import pytest

from placerl.primitives.replay import device
from placerl.primitives.replay.device.cuda_backend import CudaRows
from tests.primitives.replay.device import stand_in_cupy

REASONS = {status.name: status.reason for status in device.backends()}
KINDS = ["stand-in", "opencl", pytest.param("cuda", marks=pytest.mark.gpu)]
"""`stand-in`: the CUDA backend on an array library that works on the host."""
every_memory = pytest.mark.parametrize("kind", KINDS)


def memory(kind: str) -> device.RowMemory:
    """The memory, or a skipped test where it is missing."""
    if kind == "stand-in":
        return CudaRows(stand_in_cupy, 0)
    if REASONS[kind]:
        pytest.skip(REASONS[kind])
    return device.memory(kind)
