"""The golden model of philox.h: the same random numbers on the host, in NumPy."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)


def philox(counters: ArrayLike, key: int) -> NDArray[np.uint32]:
    """Return four random words for each counter.

    Args:
        counters: (n, 4) integers below 2^32, the words of a counter, the lowest first.
        key: which of 2^64 streams.

    Returns:
        (n, 4) uint32.
    """
    a, b, c, d = np.asarray(counters, np.uint64).reshape(-1, 4).T
    low, high = np.uint32(key & 0xFFFFFFFF), np.uint32(key >> 32)
    with np.errstate(over="ignore"):
        for _ in range(_ROUNDS):
            first, second = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
            a, b, c, d = (
                (second >> np.uint64(32)) ^ b ^ low,
                second & _LOW,
                (first >> np.uint64(32)) ^ d ^ high,
                first & _LOW,
            )
            low, high = low + _KEY_STEPS[0], high + _KEY_STEPS[1]
    return np.stack([a, b, c, d], axis=1).astype(np.uint32)


def uniform(count: int, step: int, key: int) -> NDArray[np.float64]:
    """Return `count` numbers in [0, 1) with 53 random bits, those of one step of a loop.

    Args:
        count: how many, below 2^32.
        step: number of the step, below 2^64: words 2 and 3 of the counter; word 0 is the number's position.
        key: which of 2^64 streams.

    Returns:
        (count,) float64.
    """
    counters = np.zeros((count, 4), np.uint64)
    counters[:, 0] = np.arange(count)
    counters[:, 2:] = step & 0xFFFFFFFF, step >> 32
    words = philox(counters, key)
    # As of two words: 27 bits of the first and 26 of the second.
    bits = (words[:, 0] >> np.uint32(5)).astype(np.float64) * 2.0**26 + (words[:, 1] >> np.uint32(6))
    return bits * 2.0**-53
