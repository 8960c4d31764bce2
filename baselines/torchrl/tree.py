"""Wraps TorchRL's segment tree in C++, which `baselines/tree_worker.py` times."""

from importlib.metadata import version

import torch
from torchrl._torchrl import SumSegmentTreeFp32

VERSION = f"torchrl {version('torchrl')}"
NOTE = ""


class Tree:
    """TorchRL's sum tree, with the methods `fill`, `sample` and `update` that `baselines/tree_worker.py` calls."""

    def __init__(self, capacity):
        self._tree = SumSegmentTreeFp32(capacity)
        self._capacity = capacity

    def fill(self, priorities):
        self._tree[torch.arange(self._capacity)] = torch.from_numpy(priorities).float()

    def sample(self, batch_size, rng):
        total = self._tree.query(0, self._capacity)
        return self._tree.scan_lower_bound(torch.from_numpy(rng.random(batch_size) * total).float())

    def update(self, indices, priorities):
        self._tree[torch.from_numpy(indices)] = torch.from_numpy(priorities).float()


create = Tree
