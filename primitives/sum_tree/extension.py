"""The base class of the sum trees in the native extension: it checks a call, then makes one call of the extension."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.sum_tree.base import SumTree


class ExtensionSumTree(SumTree):
    """A sum tree that passes checked arguments to an object of the native extension, which a subclass creates."""

    _tree: Any

    def _total(self) -> float:
        return float(self._tree.total)

    def _find(self, prefix: NDArray[np.float64]) -> NDArray[np.int64]:
        indices: NDArray[np.int64] = self._tree.find(prefix)
        return indices

    def _update(self, indices: NDArray[np.int64], priorities: NDArray[np.float64]) -> None:
        self._tree.update(indices, priorities)

    def _get(self, indices: NDArray[np.int64]) -> NDArray[np.floating]:
        priorities: NDArray[np.floating] = self._tree.get(indices)
        return priorities
