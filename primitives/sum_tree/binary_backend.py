"""A plain binary sum tree in C++ behind one global lock: the baseline of PAL Fig. 9.

Thread-safe: every call works under the lock, and releases the GIL meanwhile. `sample` draws from the tree as it is at
one moment. `find` raises ValueError if another thread's update puts a prefix outside [0, total). The tree belongs to
the process that created it: a fork may copy the lock while another thread holds it.
"""

import numpy as np
from numpy.typing import DTypeLike, NDArray

from placerl.primitives.sum_tree import native_backend
from placerl.primitives.sum_tree.base import SumTree, fractions
from placerl.primitives.sum_tree.extension import ExtensionSumTree
from placerl.primitives.sum_tree.own_process import OwnProcessSumTree


def unavailable_reason() -> str:
    """Return why this backend cannot be used here; empty if it can."""
    return native_backend.unavailable_reason()


def create(capacity: int, fanout: int, *, dtype: DTypeLike = np.float32) -> SumTree:
    """Create a binary sum tree in C++ behind one lock. Its nodes have two children, whatever `fanout` is.

    Args:
        fanout: not used.
    """
    return BinarySumTree(capacity, fanout, dtype)


class BinarySumTree(OwnProcessSumTree, ExtensionSumTree):
    """A sum tree whose nodes have two children. A call processes its items one after another."""

    backend = "binary"

    def __init__(self, capacity: int, fanout: int, dtype: DTypeLike) -> None:
        super().__init__(capacity, fanout, dtype)
        from placerl.primitives._native import sum_tree

        kind = sum_tree.BinaryTree32 if self.dtype == np.float32 else sum_tree.BinaryTree64
        self._tree = kind(self.capacity)

    def _sample(self, batch_size: int, rng: np.random.Generator, stratified: bool) -> NDArray[np.int64]:
        # One call, so that total and leaves are those of one moment.
        indices: NDArray[np.int64] = self._tree.draw(fractions(batch_size, rng, stratified))
        return indices
