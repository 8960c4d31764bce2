"""Gives PAL's own sum tree to the replay benchmark's worker: scalar, unchecked, with sums that are patched.

The worker loads this file: `... tree_worker.py pal_tree.py <fanout>`. The tree is that of PAL's Algorithm 2
(`harness/papers/pal/native/scalar_tree.hpp`): an update adds a priority's difference to each sum on the way to the
root, so that sums drift. Few levels make it update fast and sample slowly, so the benchmark runs two fanouts.
"""

import sys
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

VERSION = f"placerl {version('placerl')}"
NOTE = "PAL's Algorithm 2; without checks, and its sums drift"


class PalTree:
    """A sum tree in the form that the replay benchmark times; its calls take int64 and float64 vectors alone."""

    def __init__(self, capacity: int, fanout: int) -> None:
        from placerl.harness._experiments import ScalarTree

        self._tree = ScalarTree(capacity, fanout, True)
        self.update = self._tree.update

    def fill(self, priorities: NDArray[np.float64]) -> None:
        """Set the priorities of all leaves, (capacity,) float64."""
        self.update(np.arange(len(priorities)), priorities)

    def sample(self, batch_size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw `batch_size` leaves with replacement, (B,) int64."""
        leaves: NDArray[np.int64] = self._tree.find(rng.random(batch_size) * self._tree.total)
        return leaves


def create(capacity: int) -> PalTree:
    """Return the tree with the fanout that the worker was given."""
    return PalTree(capacity, int(sys.argv[2]))
