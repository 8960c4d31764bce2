import pytest

from primitives import opencl_runtime
from primitives.replay import device

needs_opencl = pytest.mark.skipif(
    bool(opencl_runtime.unavailable_reason()), reason=opencl_runtime.unavailable_reason() or "available"
)


@needs_opencl
def test_a_place_is_a_device() -> None:
    first = device.memory("opencl", device=0)
    assert first.place == device.memory("opencl", device="0").place
    with pytest.raises(ValueError, match="device"):
        device.memory("opencl", device="no such device")
