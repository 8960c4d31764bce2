"""MAP's sum tree on a CPU as its Algorithms 1 and 2 print it, threads and atomics included; for MAP Fig. 12 alone.

No backend: sums are patched by differences, so that they drift, and calls must still come one after another.
"""

import numpy as np

from primitives.sum_tree.extension import ExtensionSumTree


class AtomicSumTree(ExtensionSumTree):
    """Threads share the items of a call; float64. Of an index that is repeated in one update any priority may stay."""

    backend = "atomic"

    def __init__(self, capacity: int, fanout: int, threads: int) -> None:
        super().__init__(capacity, fanout, np.float64)
        from primitives._native import sum_tree

        self._tree = sum_tree.AtomicTree(self.capacity, self.fanout, threads)
