"""Random numbers from a counter, the same on the host and on every device: Philox 4x32-10.

A random number is a function of a key and a counter, so that work items draw without a shared state, and a loop on a
device draws what the same loop on the host does. `philox.h` has the function for kernels; the tests have it in NumPy.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from importlib.resources import files

import numpy as np


def kernel_source() -> str:
    """Return the source of `philox` for kernels, in the language that all devices share."""
    return files(__package__).joinpath("philox.h").read_text()


def key_of(seed: int) -> tuple[np.uint32, np.uint32]:
    """Return the key of a seed below 2^64, two words, the lower first."""
    return np.uint32(seed & 0xFFFFFFFF), np.uint32(seed >> 32)
