"""Defines configurations of a sum tree for experiments, and checks that a tree gives right answers."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from placerl.primitives import sum_tree
from placerl.primitives.sum_tree import SumTree

CHECKED = 1024


@dataclass(frozen=True)
class TreeLayout:
    """One configuration of the native sum tree.

    Attributes:
        fanout: K, children of a node.
        aligned: whether each group of sibling nodes starts on a cache line.
    """

    capacity: int
    fanout: int
    aligned: bool = True

    def make(self) -> SumTree:
        """Return a tree with this configuration, filled with small integer priorities."""
        tree = sum_tree.create(self.capacity, fanout=self.fanout, aligned=self.aligned)
        tree.update(np.arange(self.capacity), priorities(np.random.default_rng(0), self.capacity))
        return tree


def priorities(rng: np.random.Generator, count: int) -> npt.NDArray[np.float32]:
    """Return `count` small integer priorities, 1 to 7."""
    return rng.integers(1, 8, count).astype(np.float32)


def check(tree: SumTree) -> None:
    """Check a sum tree's updates, total and finds against cumulative sums of its leaves.

    The check is exact as long as the tree's dtype holds the sums exactly; beyond that it allows rounding errors.

    Raises:
        ValueError: an answer is wrong; the message says which.
    """
    rng = np.random.default_rng(1)
    indices = np.unique(rng.integers(0, tree.capacity, CHECKED))
    updated = priorities(rng, indices.size)
    tree.update(indices, updated)
    if not np.array_equal(tree.get(indices), updated):
        raise ValueError("priorities are not what they were updated to")
    leaves = tree.get(np.arange(tree.capacity)).astype(np.float64)
    sums = np.cumsum(leaves)
    epsilon = float(np.finfo(tree.dtype).eps)
    # Halves, such as the prefixes below, are exact up to 1 / epsilon.
    slack = 0.0 if sums[-1] <= 1 / epsilon else 4 * epsilon * sums[-1]
    if abs(tree.total - sums[-1]) > slack:
        raise ValueError(f"the total is {tree.total} where the priorities sum to {sums[-1]}")
    prefixes = rng.integers(0, int(min(tree.total, sums[-1])), CHECKED) + 0.5
    positions = tree.find(prefixes)
    below, above = sums[positions] - leaves[positions] - slack, sums[positions] + slack
    if not ((below <= prefixes) & (prefixes <= above)).all():
        raise ValueError("prefixes are not found where the cumulative sums say")
