"""This project's sum trees as the replay benchmark's worker takes them: `... tree_worker.py timed_tree.py <backend>`.

Options follow the backend as JSON: `native '{"simd": "avx2"}'`.
"""

import json
import sys
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from primitives import sum_tree

VERSION = f"placerl {version('placerl')}"
NOTE = ""
BACKEND = sys.argv[2] if len(sys.argv) > 2 else "native"
OPTIONS = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}


class Tree:
    """What the replay benchmark times: the backend's own methods, without another call around them."""

    def __init__(self, capacity: int) -> None:
        self._tree = sum_tree.create(capacity, backend=BACKEND, **OPTIONS)
        self.sample = self._tree.sample
        self.update = self._tree.update

    def fill(self, priorities: NDArray[np.float64]) -> None:
        """Sets all leaves."""
        self._tree.update(np.arange(len(priorities)), priorities)

    def load_dependent(self, indices: NDArray[np.int64]) -> float:
        """The memory floor with each load waiting for the one above it; native only."""
        return float(self._tree.load_paths(indices, dependent=True))  # type: ignore[attr-defined]

    def load_independent(self, indices: NDArray[np.int64]) -> float:
        """The memory floor with no load waiting for another; native only."""
        return float(self._tree.load_paths(indices, dependent=False))  # type: ignore[attr-defined]


create = Tree
