"""Gives this project's sum trees to the replay benchmark's worker, which times those of other libraries too.

The worker loads this file: `... tree_worker.py own_tree.py <backend>`. The backend's options may follow as JSON:
`native '{"simd": "avx2"}'`.
"""

import json
import sys
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from placerl.primitives import sum_tree

VERSION = f"placerl {version('placerl')}"
NOTE = ""
BACKEND = sys.argv[2] if len(sys.argv) > 2 else "native"
OPTIONS = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}


class Tree:
    """A sum tree in the form that the replay benchmark times.

    Its `sample` and `update` are the backend's own methods, so the times include no call of a wrapper.
    """

    def __init__(self, capacity: int) -> None:
        self._tree = sum_tree.create(capacity, backend=BACKEND, **OPTIONS)
        self.sample = self._tree.sample
        self.update = self._tree.update

    def fill(self, priorities: NDArray[np.float64]) -> None:
        """Set the priorities of all leaves, (capacity,) float64."""
        self._tree.update(np.arange(len(priorities)), priorities)


create = Tree
