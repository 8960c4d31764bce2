"""A sum tree's interface without a tree: PyTorch's cumulative sum and a binary search in it, on CPU and CUDA.

The cumulative sum is computed again after each update and each `find`. An update of B leaves costs O(B), a `find`
costs O(capacity). On GPUs this is often faster than a tree, up to about a million leaves.
"""

import importlib.util
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from placerl.primitives.interrupts import whole_imports
from placerl.primitives.sum_tree.base import SumTree
from placerl.primitives.sum_tree.own_process import OwnProcessSumTree
from placerl.primitives.torch_device import torch_device


def unavailable_reason() -> str:
    """Return why this backend cannot be used here; empty if it can, at least on the CPU."""
    return "" if importlib.util.find_spec("torch") else "PyTorch is not installed"


def check_device(device: str) -> None:
    """Raise ValueError unless PyTorch has the device here: "cpu", "cuda" or "cuda:<number>"."""
    torch_device(device)


def create(capacity: int, fanout: int, *, dtype: DTypeLike = np.float64, device: str = "cpu") -> SumTree:
    """Create a `FlatSumTree`, which keeps a cumulative sum of the priorities instead of a tree.

    Args:
        fanout: not used.
        device: PyTorch's name of the device: "cpu", "cuda", "cuda:1", ...

    Raises:
        ValueError: there is no such device.
    """
    check_device(device)
    return FlatSumTree(capacity, fanout, dtype, device)


class FlatSumTree(OwnProcessSumTree):
    """Stores the priorities as a tensor of `dtype`, and their cumulative sum as one of float64.

    `fanout` has no effect. The tree belongs to the process that created it.
    """

    backend = "flat"

    def __init__(self, capacity: int, fanout: int, dtype: DTypeLike, device: str) -> None:
        super().__init__(capacity, fanout, dtype)
        with whole_imports():
            import torch

        self._torch: Any = torch
        self._device = torch.device(device)
        kind = torch.float32 if self.dtype == np.float32 else torch.float64
        self._priorities = torch.zeros(self.capacity, dtype=kind, device=self._device)
        self._last = torch.zeros(self.capacity, dtype=torch.int64, device=self._device)
        self._sums: Any = None

    def _cumulative(self) -> Any:
        if self._sums is None:
            sums = self._priorities.cumsum(0, dtype=self._torch.float64)
            # A parallel scan rounds differently at different positions. The sums are made monotone, and
            # constant where the priority is 0, so that the first sum above a prefix never belongs to a leaf
            # of priority 0.
            self._sums = self._torch.where(self._priorities > 0, sums, 0).cummax(0).values
        return self._sums

    def _total(self) -> float:
        return float(self._cumulative()[-1])

    def synchronise(self) -> None:
        self._check_process()
        if self._device.type == "cuda":
            self._torch.cuda.synchronize(self._device)

    def _find(self, prefix: NDArray[np.float64]) -> NDArray[np.int64]:
        sums = self._cumulative()
        values = self._torch.from_numpy(prefix).to(self._device)
        leaves: NDArray[np.int64] = self._torch.searchsorted(sums, values, right=True).cpu().numpy()
        # In training an update precedes every draw, so each draw pays for a cumulative sum. If the sum were
        # kept between draws, no measurement would include it when sampling and updating are timed separately.
        self._sums = None
        return leaves

    def _update(self, indices: NDArray[np.int64], priorities: NDArray[np.float64]) -> None:
        torch = self._torch
        leaves = torch.from_numpy(indices).to(self._device)
        values = torch.from_numpy(priorities).to(self._device, self._priorities.dtype)
        # Writes to repeated indices may finish in any order, so all of them write the last value.
        order = torch.arange(len(leaves), device=self._device)
        self._last.scatter_reduce_(0, leaves, order, "amax", include_self=False)
        self._priorities[leaves] = values[self._last[leaves]]
        self._sums = None

    def _get(self, indices: NDArray[np.int64]) -> NDArray[np.floating]:
        leaves = self._torch.from_numpy(indices).to(self._device)
        priorities: NDArray[np.floating] = self._priorities[leaves].cpu().numpy()
        return priorities
