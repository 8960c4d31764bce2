"""A plain binary sum tree in C++ behind one global lock: the baseline of PAL Fig. 9.

Thread-safe: every call holds the lock from start to end, and releases the GIL meanwhile.
"""

import numpy as np
from numpy.typing import DTypeLike

from primitives.sum_tree import native_backend
from primitives.sum_tree.base import SumTree
from primitives.sum_tree.extension import ExtensionSumTree


def unavailable_reason() -> str:
    """Return why this backend cannot be used here; empty if it can."""
    return native_backend.unavailable_reason()


def create(capacity: int, fanout: int, *, dtype: DTypeLike = np.float32) -> SumTree:
    """Create a binary sum tree in C++ behind one lock. Its nodes have two children, whatever `fanout` is.

    Args:
        capacity: number of leaves.
        fanout: not used.
        dtype: floating-point type of the priorities.
    """
    return BinarySumTree(capacity, fanout, dtype)


class BinarySumTree(ExtensionSumTree):
    """A sum tree whose nodes have two children. A call processes its items one after another."""

    backend = "binary"

    def __init__(self, capacity: int, fanout: int, dtype: DTypeLike) -> None:
        super().__init__(capacity, fanout, dtype)
        from primitives._native import sum_tree

        kind = sum_tree.BinaryTree32 if self.dtype == np.float32 else sum_tree.BinaryTree64
        self._tree = kind(self.capacity)
