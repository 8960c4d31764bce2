"""The CUDA backend's source compiles without a GPU; its results are tested on one (`test_conformance.py`)."""

import pytest

from placerl.primitives.sum_tree.gpu.device_tree import kernel_source
from tests.primitives.device.nvrtc import ARCHITECTURES, compile_cubin


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles_without_a_gpu(architecture: str, dtype: str) -> None:
    cubin = compile_cubin(kernel_source(dtype), architecture)
    assert cubin.startswith(b"\x7fELF")
    for kernel in (b"find", b"set_leaves", b"sum_nodes"):
        assert b".text." + kernel in cubin
