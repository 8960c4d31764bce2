"""Wraps PFRL's sum tree, which consists of nested Python lists; `baselines/tree_worker.py` times it."""

from importlib.metadata import version

from pfrl.collections.prioritized import SumTreeQueue

VERSION = f"pfrl {version('pfrl')}"
NOTE = "draws without replacement, from NumPy's global generator"


class Tree:
    """PFRL's sum tree, with the methods `fill`, `sample` and `update` that `baselines/tree_worker.py` calls."""

    def __init__(self, capacity):
        self._tree = SumTreeQueue()

    def fill(self, priorities):
        # Appending ten million items would take minutes, so the nodes are built from the leaves up.
        nodes = [[None, None, priority] for priority in priorities.tolist()]
        width = 1
        while len(nodes) > 1:
            nodes.extend([[]] * (len(nodes) % 2))
            pairs = zip(nodes[::2], nodes[1::2], strict=True)
            nodes = [[left, right, left[2] + (right[2] if right else 0.0)] for left, right in pairs]
            width *= 2
        self._tree.root, self._tree.bounds, self._tree.length = nodes[0], (0, width), len(priorities)

    def sample(self, batch_size, rng):
        return self._tree.prioritized_sample(batch_size, remove=False)[0]

    def update(self, indices, priorities):
        for index, priority in zip(indices, priorities, strict=True):
            self._tree[index] = priority


create = Tree
