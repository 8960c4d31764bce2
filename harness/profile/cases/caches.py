"""Empties the private caches of the current core, as calls with a large working set do."""

import os

import numpy as np

SWEPT = 4
"""Bytes swept, in multiples of the second-level cache's size: enough to replace all of its contents, code included."""
USUAL_BYTES = 2**20
"""Assumed size of a second-level cache if the system does not report it."""


class Sweep:
    """A function that reads and writes more memory than the private caches hold, so that nothing else stays in them."""

    def __init__(self) -> None:
        told = os.sysconf("SC_LEVEL2_CACHE_SIZE") if "SC_LEVEL2_CACHE_SIZE" in os.sysconf_names else 0
        self._data = np.zeros(SWEPT * (told if told > 0 else USUAL_BYTES) // 8)

    def __call__(self) -> None:
        self._data += 1
