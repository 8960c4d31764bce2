"""Wraps tianshou's segment tree, NumPy arrays with code that numba compiles; `baselines/tree_worker.py` times it."""

from importlib.metadata import version

import numpy as np
from tianshou.data import SegmentTree

VERSION = f"tianshou {version('tianshou')}"
NOTE = ""


class Tree:
    """tianshou's sum tree, with the methods `fill`, `sample` and `update` that `baselines/tree_worker.py` calls."""

    def __init__(self, capacity):
        self._tree = SegmentTree(capacity)

    def fill(self, priorities):
        self._tree[np.arange(len(priorities))] = priorities

    def sample(self, batch_size, rng):
        # Prefixes are copied for each call, because get_prefix_sum_idx changes them in place.
        return self._tree.get_prefix_sum_idx(rng.random(batch_size) * self._tree.reduce())

    def update(self, indices, priorities):
        self._tree[indices] = priorities


create = Tree
