"""Every kind of device, for the tests of what stands on it."""

import pytest

from placerl.primitives import device
from placerl.primitives.device.cuda import CudaDevice
from tests.primitives.device import stand_in_cupy

KINDS = ["host", "stand-in", "opencl", pytest.param("cuda", marks=pytest.mark.gpu)]
"""`stand-in`: the CUDA device on an array library that works on the host."""
every_kind = pytest.mark.parametrize("kind", KINDS)
every_kind_with_barriers = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "stand-in"])


def device_of(kind: str) -> device.Device:
    """The device, or a skipped test where it is missing."""
    if kind == "stand-in":
        return CudaDevice(stand_in_cupy, 0)
    if reason := device.unavailable_reason(kind):
        pytest.skip(reason)
    return device.create(kind)
