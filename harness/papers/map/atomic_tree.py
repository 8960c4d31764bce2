"""Defines MAP's CPU sum tree, written as in MAP's Algorithms 1 and 2, with threads and atomics.

Only MAP Fig. 12 uses it. It is not a backend: updates add differences to the sums, so the sums drift, and calls must
not overlap.
"""

import numpy as np

from placerl.primitives.sum_tree.extension import ExtensionSumTree
from placerl.primitives.sum_tree.own_process import OwnProcessSumTree


class AtomicSumTree(OwnProcessSumTree, ExtensionSumTree):
    """A float64 sum tree whose calls divide their items among threads.

    If an update repeats an index, any of the priorities given for it may be kept.
    """

    backend = "atomic"

    def __init__(self, capacity: int, fanout: int, threads: int) -> None:
        super().__init__(capacity, fanout, np.float64)
        from placerl.harness._experiments import AtomicTree

        self._tree = AtomicTree(self.capacity, self.fanout, threads)
