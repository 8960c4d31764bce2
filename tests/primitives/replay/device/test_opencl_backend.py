import pytest

from placerl.primitives.replay import device
from tests.marks import needs_opencl


@needs_opencl
def test_a_place_is_a_device() -> None:
    first = device.memory("opencl", device=0)
    assert first.place == device.memory("opencl", device="0").place
    with pytest.raises(ValueError, match="device"):
        device.memory("opencl", device="no such device")
