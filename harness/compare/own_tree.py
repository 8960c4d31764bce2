"""This project's sum trees for the replay benchmark's worker: `... tree_worker.py own_tree.py <backend>`.

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
    """The part that the replay benchmark times: the backend's own methods, without a further call around them."""

    def __init__(self, capacity: int) -> None:
        self._tree = sum_tree.create(capacity, backend=BACKEND, **OPTIONS)
        self.sample = self._tree.sample
        self.update = self._tree.update

    def fill(self, priorities: NDArray[np.float64]) -> None:
        """Set all leaves."""
        self._tree.update(np.arange(len(priorities)), priorities)


create = Tree
