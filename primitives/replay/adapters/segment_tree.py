"""The native sum tree behind the interface of other libraries' segment trees."""

import numpy as np
import numpy.typing as npt

from placerl.primitives import sum_tree
from placerl.primitives.replay.prioritized import PRIORITY_MIN


def drawable(priorities: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return priorities of which none that is positive rounds to 0 in the tree, where it could never be drawn."""
    values = np.asarray(priorities, np.float64)
    return np.where(values > 0, np.maximum(values, PRIORITY_MIN), values)


class SegmentTree:
    """A sum tree that is read and written like an array: `tree[rows]` returns priorities, `tree[rows] = p` sets them.

    Args:
        fanout: children of a node (K), 2 to 256.

    Attributes:
        tree: the sum tree that holds the priorities.
    """

    def __init__(self, size: int, fanout: int = 16) -> None:
        self.tree = sum_tree.create(size, fanout=fanout)

    def __len__(self) -> int:
        return self.tree.capacity

    def __getitem__(self, index: int | npt.NDArray[np.integer]) -> npt.NDArray[np.floating]:
        rows = np.asarray(index, np.int64)
        return self.tree.get(rows.reshape(-1)).astype(np.float64).reshape(rows.shape)

    def __setitem__(self, index: int | npt.NDArray[np.integer], value: npt.ArrayLike) -> None:
        rows = np.asarray(index, np.int64).reshape(-1)
        self.tree.update(rows, np.broadcast_to(drawable(value), rows.shape).copy())

    def reduce(self) -> float:
        """Return the sum of all priorities."""
        return self.tree.total

    def get_prefix_sum_idx(self, prefix: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return the prefix sum index of each prefix (`SumTree.find`): the smallest i with P[0] + ... + P[i] > prefix.

        A prefix at or above the total is lowered to just below it.
        """
        return self.tree.find(np.minimum(prefix, np.nextafter(self.tree.total, 0)))
