"""PAL's sum tree, written as in PAL's Algorithm 2. Only PAL's own claims on the fanout and the layout use it.

The compiled kernels of the backend `native` are made for K = 16, and its small levels keep running sums, so that a
comparison of fanouts on it compares these, too. Here one scalar loop serves every K.

It is not a backend: updates add differences to the sums, so the sums drift, and calls must not overlap.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from primitives.sum_tree.extension import ExtensionSumTree


class ScalarSumTree(ExtensionSumTree):
    """Float32, of which a cache line holds 16.

    Args:
        capacity: number of leaves.
        fanout: K, children of a node, 2 to 256.
        aligned: pad the root with K - 1 values, so that node groups start on cache lines where K is a multiple of
            16 (PAL IV-C4).
    """

    backend = "scalar"

    def __init__(self, capacity: int, fanout: int, aligned: bool = True) -> None:
        super().__init__(capacity, fanout, np.float32)
        from harness._experiments import ScalarTree

        self._tree: Any = ScalarTree(self.capacity, self.fanout, aligned)

    @property
    def group_offset_bytes(self) -> int:
        """Where the first group of children starts, in bytes after the start of a cache line."""
        return int(self._tree.group_offset_bytes)

    def sample_and_update(
        self, uniform: NDArray[np.float64], indices: NDArray[np.int64], priorities: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return the leaves of uniform numbers times the total, then update priorities, in one call.

        Args:
            uniform: (B,) in [0, 1).
            indices: (B,) leaves to update.
            priorities: (B,) their new priorities, at least 0.

        Returns:
            (B,) leaves, drawn before the update.

        Raises:
            TypeError, ValueError: wrong dtypes or sizes, a leaf out of range, or a total of 0.
        """
        found: NDArray[np.int64] = self._tree.sample_and_update(uniform, indices, priorities)
        return found
