"""The CUDA form of the gather compiles for every architecture without a GPU."""

import pytest

from placerl.primitives.replay import device
from placerl.primitives.replay.device import cuda_backend
from tests.nvrtc import compile_cubin


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_100"])
def test_compiles_without_a_gpu(architecture: str) -> None:
    assert b".text.gather_rows" in compile_cubin(cuda_backend.source(), architecture)


def test_says_why_it_cannot_be_used() -> None:
    (reason,) = (status.reason for status in device.backends() if status.name == "cuda")
    if not reason:
        pytest.skip("there is a CUDA device")
    assert "CuPy is not installed" in reason or "no CUDA device" in reason
