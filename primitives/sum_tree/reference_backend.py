"""The reference that every other backend must match: a K-ary sum tree in NumPy, level by level, in float64."""

import numpy as np
from numpy.typing import DTypeLike, NDArray

from placerl.primitives.sum_tree.base import SumTree


def unavailable_reason() -> str:
    """Return an empty string: this backend can always be used."""
    return ""


def create(capacity: int, fanout: int, *, dtype: DTypeLike = np.float64) -> SumTree:
    """Create a sum tree in NumPy.

    Args:
        dtype: float64 or float32.
    """
    return ReferenceSumTree(capacity, fanout, dtype)


class ReferenceSumTree(SumTree):
    """A sum tree in NumPy, with one array per level, from the root's children to the leaves.

    Each array is padded with zeros to whole nodes.
    """

    backend = "reference"

    def __init__(self, capacity: int, fanout: int, dtype: DTypeLike) -> None:
        super().__init__(capacity, fanout, dtype)
        nodes = [-(-self.capacity // self.fanout)]
        while nodes[0] > 1:
            nodes.insert(0, -(-nodes[0] // self.fanout))
        self._levels = [np.zeros((count, self.fanout), self.dtype) for count in nodes]

    def _total(self) -> float:
        return float(self._levels[0].sum())

    def _find(self, prefix: NDArray[np.float64]) -> NDArray[np.int64]:
        node = np.zeros(prefix.shape, dtype=np.int64)
        rest = prefix.copy()
        rows = np.arange(len(prefix))
        for level in self._levels:
            children = level[node]
            positive = children > 0
            sums = children.cumsum(axis=1, dtype=np.float64)
            chosen = (sums > rest[:, None]) & positive
            # Sums of sums are rounded, so the remaining prefix can reach the node's own sum: the last child
            # is taken then.
            last = self.fanout - 1 - positive[:, ::-1].argmax(axis=1)
            child = np.where(chosen.any(axis=1), chosen.argmax(axis=1), last)
            rest = np.maximum(rest - np.where(child > 0, sums[rows, child - 1], 0.0), 0.0)
            node = node * self.fanout + child
        return node

    def _update(self, indices: NDArray[np.int64], priorities: NDArray[np.float64]) -> None:
        self._levels[-1].reshape(-1)[indices] = priorities  # NumPy stores the last of repeated indices
        nodes = indices
        for parents, children in zip(self._levels[-2::-1], self._levels[:0:-1], strict=True):
            nodes = np.unique(nodes // self.fanout)
            parents.reshape(-1)[nodes] = children[nodes].sum(axis=1)

    def _get(self, indices: NDArray[np.int64]) -> NDArray[np.floating]:
        return self._levels[-1].reshape(-1)[indices]
