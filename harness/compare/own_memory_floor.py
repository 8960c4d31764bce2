"""The memory floor of a sum tree for the replay benchmark's worker: `... tree_worker.py own_memory_floor.py`.

The floor is the time that memory alone takes for a descent: one load per level on each leaf's path
(`native/memory_floor.hpp`), in a tree with the default layout of the backend `native`. The worker checks and
fills a separate tree of that backend.
"""

from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from primitives import sum_tree

VERSION = f"placerl {version('placerl')}"
NOTE = ""


class FlooredTree:
    """A native sum tree, and the loads of its descents without further work."""

    def __init__(self, capacity: int) -> None:
        from harness._experiments import MemoryFloor

        self._tree = sum_tree.create(capacity, backend="native")
        self._floor = MemoryFloor(capacity, self._tree.fanout)
        self.sample = self._tree.sample
        self.update = self._tree.update

    def fill(self, priorities: NDArray[np.float64]) -> None:
        """Set all leaves of the tree; the floor's loads do not depend on them."""
        self._tree.update(np.arange(len(priorities)), priorities)

    def load_dependent(self, indices: NDArray[np.int64]) -> float:
        """Read the memory of descents; each load waits for the load one level above, as in a descent.

        Args:
            indices: (B,) contiguous int64 in [0, capacity).

        Returns:
            A meaningless number, which keeps the compiler from removing the loads.

        Raises:
            ValueError: `indices` has another shape, dtype or range.
        """
        return float(self._floor.load_paths(indices, dependent=True))

    def load_independent(self, indices: NDArray[np.int64]) -> float:
        """Read the memory of descents as `load_dependent` does, but no load waits for another."""
        return float(self._floor.load_paths(indices, dependent=False))


create = FlooredTree
