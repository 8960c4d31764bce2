"""Every backend with the options that change its code path: what the conformance suite runs over."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from primitives import sum_tree
from primitives.sum_tree.device_tree import DeviceSumTree
from tests.primitives.sum_tree.cpp_device import CppDevice


@dataclass(frozen=True)
class Variant:
    """One backend with options; `epsilon` is the relative rounding of its sums."""

    backend: str
    options: dict[str, Any] = field(default_factory=dict)
    epsilon: float = float(np.finfo(np.float32).eps)

    def __str__(self) -> str:
        return "-".join([self.backend, *(f"{key}={value}" for key, value in self.options.items())])

    def create(self, capacity: int, fanout: int = 16) -> sum_tree.SumTree:
        """A tree, or a skipped test where the backend or the processor's instruction set is missing."""
        if self.backend not in AVAILABLE:
            pytest.skip(REASONS[self.backend])
        if (simd := self.options.get("simd")) and simd not in SIMD_SETS:
            pytest.skip(f"this processor lacks {simd}")
        if str(self.options.get("device", "")).startswith("cuda") and not _torch_sees_cuda():
            pytest.skip("PyTorch sees no CUDA device")
        return sum_tree.create(capacity, backend=self.backend, fanout=fanout, **self.options)


def _torch_sees_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


class CppKernels(Variant):
    """The kernels that OpenCL and CUDA share, built as C++."""

    def create(self, capacity: int, fanout: int = 16) -> sum_tree.SumTree:
        dtype = self.options["dtype"]
        return DeviceSumTree(capacity, fanout, dtype, CppDevice(dtype))


REASONS = {status.name: status.reason for status in sum_tree.backends()}
AVAILABLE = [status.name for status in sum_tree.backends() if status.available]


def _simd_sets() -> list[str]:
    try:
        from primitives import _native
    except ImportError:
        return []
    sets = ["portable", "avx2", "avx512"]
    return sets[: sets.index(_native.simd_level()) + 1]


SIMD_SETS = _simd_sets()
DOUBLE = float(np.finfo(np.float64).eps)

VARIANTS = [
    Variant("reference", epsilon=DOUBLE),
    Variant("reference", {"dtype": "float32"}),
    *(Variant("native", {"simd": simd}) for simd in ("avx512", "avx2", "portable")),
    *(
        Variant("native", {"simd": simd, "dtype": "float64"}, DOUBLE)
        for simd in ("avx512", "avx2", "portable")
    ),
    Variant("native", {"aligned": False}),
    Variant("native", {"running_sums_max": 0}),
    Variant("native", {"running_sums_max": 2**40, "simd": "avx2"}),
    Variant("native", {"threads": 2}),
    Variant("binary"),
    Variant("binary", {"dtype": "float64"}, DOUBLE),
    Variant("flat", epsilon=DOUBLE),
    Variant("flat", {"dtype": "float32"}),
    CppKernels("device", {"dtype": "float32"}),
    CppKernels("device", {"dtype": "float64"}, DOUBLE),
    Variant("opencl"),
    Variant("opencl", {"dtype": "float64"}, DOUBLE),
    # The same on a CUDA device where there is one.
    pytest.param(Variant("flat", {"device": "cuda"}, DOUBLE), marks=pytest.mark.gpu),
    pytest.param(Variant("cuda"), marks=pytest.mark.gpu),
    pytest.param(Variant("cuda", {"dtype": "float64"}, DOUBLE), marks=pytest.mark.gpu),
]

every_variant = pytest.mark.parametrize("variant", VARIANTS, ids=str)
