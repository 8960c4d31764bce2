"""Empties the private caches of the core that it runs on, as a part with a large working set does."""

import os

import numpy as np

SWEPT = 4
"""Times the size of the second-level cache: what lies in it, code included, is replaced."""
USUAL_BYTES = 2**20
"""Of a second-level cache where the system does not tell."""


class Sweep:
    """Reads and writes more than the private caches hold, at every call."""

    def __init__(self) -> None:
        told = os.sysconf("SC_LEVEL2_CACHE_SIZE") if "SC_LEVEL2_CACHE_SIZE" in os.sysconf_names else 0
        self._data = np.zeros(SWEPT * (told if told > 0 else USUAL_BYTES) // 8)

    def __call__(self) -> None:
        self._data += 1
