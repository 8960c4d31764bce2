"""Wraps RLlib's segment tree, a Python list accessed leaf by leaf, which `baselines/tree_worker.py` times."""

from importlib.metadata import version

from ray.rllib.execution.segment_tree import SumSegmentTree

VERSION = f"ray {version('ray')}"
NOTE = "one call of the tree an item, as RLlib's buffer does"


class Tree:
    """RLlib's sum tree, with the methods `fill`, `sample` and `update` that `baselines/tree_worker.py` calls."""

    def __init__(self, capacity):
        self._tree = SumSegmentTree(1 << (capacity - 1).bit_length())

    def fill(self, priorities):
        # Setting leaf by leaf would take minutes, so the sums are computed once, from the leaves up.
        value, leaves = self._tree.value, self._tree.capacity
        value[leaves : leaves + len(priorities)] = priorities.tolist()
        for node in range(leaves - 1, 0, -1):
            value[node] = value[2 * node] + value[2 * node + 1]

    def sample(self, batch_size, rng):
        prefixes = rng.random(batch_size) * self._tree.sum()
        return [self._tree.find_prefixsum_idx(prefix) for prefix in prefixes]

    def update(self, indices, priorities):
        for index, priority in zip(indices, priorities, strict=True):
            self._tree[index] = priority


create = Tree
