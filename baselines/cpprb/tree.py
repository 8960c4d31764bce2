"""Wraps cpprb's prioritised replay buffer as a sum tree, because its C++ tree has no interface of its own."""

from importlib.metadata import version

import numpy as np
from cpprb import PrioritizedReplayBuffer

VERSION = f"cpprb {version('cpprb')}"
NOTE = "a call of the whole buffer: sample also weighs and gathers one column, and draws from cpprb's own generator"


class Tree:
    """cpprb's buffer, with the methods `fill`, `sample` and `update` that `baselines/tree_worker.py` calls."""

    def __init__(self, capacity):
        # With alpha = 1 and eps = 0 the priorities are the values given.
        self._buffer = PrioritizedReplayBuffer(capacity, {"done": {}}, alpha=1.0, eps=0.0)

    def fill(self, priorities):
        self._buffer.add(done=np.zeros(len(priorities)), priorities=priorities)

    def sample(self, batch_size, rng):
        return self._buffer.sample(batch_size)["indexes"]

    def update(self, indices, priorities):
        self._buffer.update_priorities(indices, priorities)


create = Tree
