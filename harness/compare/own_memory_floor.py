"""Measures the memory floor of a sum tree: the time that the memory alone takes for descents from root to leaf.

That is one load per level on each leaf's path (`native/memory_floor.hpp`), in a tree with the default layout of the
backend `native`. The replay benchmark runs this file in its worker (`... tree_worker.py own_memory_floor.py`), which
checks and fills a separate tree of that backend.
"""

from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from placerl.primitives import sum_tree

VERSION = f"placerl {version('placerl')}"
NOTE = ""


class FlooredTree:
    """A native sum tree, together with functions that only make the memory accesses of its descents."""

    def __init__(self, capacity: int) -> None:
        from placerl.harness._experiments import MemoryFloor

        self._tree = sum_tree.create(capacity, backend="native")
        self._floor = MemoryFloor(capacity, self._tree.fanout)
        self.sample = self._tree.sample
        self.update = self._tree.update

    def fill(self, priorities: NDArray[np.float64]) -> None:
        """Set the priorities of all leaves, (capacity,) float64; the loads do not depend on them."""
        self._tree.update(np.arange(len(priorities)), priorities)

    def load_dependent(self, indices: NDArray[np.int64]) -> float:
        """Make the memory accesses of descents to leaves; each waits for the one a level above, as in a real descent.

        Args:
            indices: (B,) contiguous int64 in [0, capacity).

        Returns:
            A meaningless number, which keeps the compiler from removing the loads.

        Raises:
            ValueError: `indices` has another shape, dtype or range.
        """
        return float(self._floor.load_paths(indices, dependent=True))

    def load_independent(self, indices: NDArray[np.int64]) -> float:
        """Make the memory accesses of descents to leaves, but so that no access has to wait for another."""
        return float(self._floor.load_paths(indices, dependent=False))


create = FlooredTree
