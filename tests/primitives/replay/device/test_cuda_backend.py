"""The CUDA form of the gather compiles for every architecture without a GPU."""

import pytest

from placerl.primitives.replay import device
from placerl.primitives.replay.device.packed_rows import kernel_source
from tests.primitives.device.nvrtc import ARCHITECTURES, compile_cubin


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles_without_a_gpu(architecture: str) -> None:
    assert b".text.gather_rows" in compile_cubin(kernel_source(), architecture)


def test_says_why_it_cannot_be_used() -> None:
    (reason,) = (status.reason for status in device.backends() if status.name == "cuda")
    if not reason:
        pytest.skip("there is a CUDA device")
    assert "CuPy is not installed" in reason or "no CUDA device" in reason
