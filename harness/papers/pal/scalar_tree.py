"""Defines PAL's sum tree, written as in PAL's Algorithm 2. Only PAL's own claims on fanout and layout use it.

One scalar loop serves every fanout K. The backend `native` would not compare fanouts fairly: its compiled kernels are
made for K = 16, and its small levels keep running sums.

The tree is not a backend: updates add differences to the sums, so the sums drift, and calls must not overlap.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.sum_tree.extension import ExtensionSumTree


class ScalarSumTree(ExtensionSumTree):
    """A float32 sum tree with the same scalar code for every fanout; a cache line holds 16 nodes.

    Args:
        fanout: K, children of a node, 2 to 256.
        aligned: pad the root with K - 1 values, so that node groups start on cache lines where K is a multiple
            of 16 (PAL IV-C4).
    """

    backend = "scalar"

    def __init__(self, capacity: int, fanout: int, aligned: bool = True) -> None:
        super().__init__(capacity, fanout, np.float32)
        from placerl.harness._experiments import ScalarTree

        self._tree: Any = ScalarTree(self.capacity, self.fanout, aligned)

    @property
    def group_offset_bytes(self) -> int:
        """Return the offset of the first group of children from the start of a cache line, bytes."""
        return int(self._tree.group_offset_bytes)

    def sample_and_update(
        self, uniform: NDArray[np.float64], indices: NDArray[np.int64], priorities: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Sample leaves and then update priorities, in one call.

        Args:
            uniform: (B,) uniform numbers in [0, 1); each samples the leaf at that share of the sum of all priorities.
            indices: (B,) leaves to update.
            priorities: (B,) their new priorities, at least 0.

        Returns:
            (B,) the sampled leaves, drawn before the update.

        Raises:
            TypeError, ValueError: wrong dtypes or sizes, a leaf out of range, or a total of 0.
        """
        leaves: NDArray[np.int64] = self._tree.sample_and_update(uniform, indices, priorities)
        return leaves
