"""Every backend with the options that change its code path: what the conformance suite runs over."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

from placerl.primitives import sum_tree
from placerl.primitives.fpga.export import toolchain
from placerl.primitives.sum_tree.gpu.device_tree import DeviceSumTree
from tests.primitives.device.kinds import device_of
from tests.primitives.simd import USABLE


@dataclass(frozen=True)
class Variant:
    """One backend with options; `epsilon` is the relative rounding of its sums."""

    backend: str
    options: dict[str, Any] = field(default_factory=dict)
    epsilon: float = float(np.finfo(np.float32).eps)

    # Powers of ten between which priorities are kept.
    decades: ClassVar[tuple[int, int]] = (-30, 30)
    fanouts: ClassVar[tuple[int, ...]] = (2, 3, 4, 7, 8, 16, 17, 32, 64, 100, 128, 256)
    fanout: ClassVar[st.SearchStrategy[int]] = st.integers(2, 256)

    def __str__(self) -> str:
        return "-".join([self.backend, *(f"{key}={value}" for key, value in self.options.items())])

    def create(self, capacity: int, fanout: int = 16) -> sum_tree.SumTree:
        """A tree, or a skipped test where the backend or the processor's instruction set is missing."""
        if self.backend not in AVAILABLE:
            pytest.skip(REASONS[self.backend])
        if (simd := self.options.get("simd")) and simd not in USABLE:
            pytest.skip(f"this processor lacks {simd}")
        if str(self.options.get("device", "")).startswith("cuda") and not _torch_sees_cuda():
            pytest.skip("PyTorch sees no CUDA device")
        return sum_tree.create(capacity, backend=self.backend, fanout=fanout, **self.options)

    def fitted(self, priorities: NDArray[np.float64]) -> NDArray[np.float64]:
        """The nearest priorities that the backend's number format holds; floating point is left as it is."""
        return priorities


class FixedPoint(Variant):
    """The FPGA's number format, and few fanouts and depths: each is hardware of its own that takes long to build."""

    decades = (-5, 3)
    fanouts = (2, 3, 16)
    fanout = st.sampled_from(fanouts)
    levels: ClassVar[dict[int, int]] = {2: 13, 3: 8, 4: 6, 7: 5, 16: 5, 64: 2, 100: 2}

    def create(self, capacity: int, fanout: int = 16) -> sum_tree.SumTree:
        if self.backend not in AVAILABLE:
            pytest.skip(REASONS[self.backend])
        # A node of 16 children in one word takes minutes to build, so that a variant of its own has it.
        widest = 16 if self.options.get("form") == "wide" else 4
        options = self.options | {"form": "wide" if fanout <= widest else "narrow"}
        return sum_tree.create(capacity, backend="fpga", fanout=fanout, levels=self.levels[fanout], **options)

    def fitted(self, priorities: NDArray[np.float64]) -> NDArray[np.float64]:
        steps = np.clip(np.floor(priorities * 2.0**20 + 0.5), 1, 2**32 - 1)
        return np.where(priorities > 0, steps / 2.0**20, 0.0)


def _torch_sees_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


class OnDevice(Variant):
    """The tree of every device, on one of which no backend is made."""

    def create(self, capacity: int, fanout: int = 16) -> sum_tree.SumTree:
        return DeviceSumTree(capacity, fanout, self.options["dtype"], device_of(self.options["device"]))


REASONS = {status.name: status.reason for status in sum_tree.backends()}
if "fpga" in REASONS:
    REASONS["fpga"] = REASONS["fpga"] or toolchain.unavailable_reason()  # contents in hardware are simulated
AVAILABLE = [name for name, reason in REASONS.items() if not reason]
DOUBLE = float(np.finfo(np.float64).eps)

_LISTED = [
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
    OnDevice("device", {"device": "host", "dtype": "float32"}),
    OnDevice("device", {"device": "host", "dtype": "float64"}, DOUBLE),
    OnDevice("device", {"device": "stand-in", "dtype": "float32"}),
    Variant("opencl"),
    Variant("opencl", {"dtype": "float64"}, DOUBLE),
    pytest.param(FixedPoint("fpga"), marks=pytest.mark.slow),
    pytest.param(FixedPoint("fpga", {"form": "wide"}), marks=[pytest.mark.slow, pytest.mark.long]),
    # The same on a CUDA device where there is one.
    pytest.param(Variant("flat", {"device": "cuda"}, DOUBLE), marks=pytest.mark.gpu),
    pytest.param(Variant("cuda"), marks=pytest.mark.gpu),
    pytest.param(Variant("cuda", {"dtype": "float64"}, DOUBLE), marks=pytest.mark.gpu),
]
_NAMED = {one.backend if isinstance(one, Variant) else one.values[0].backend for one in _LISTED}
VARIANTS = [*_LISTED, *(Variant(name) for name in REASONS if name not in _NAMED)]
"""Those, and a backend that is new as it is created by default: in single precision or better."""

every_variant = pytest.mark.parametrize("variant", VARIANTS, ids=str)
