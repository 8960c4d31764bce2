"""What a part of a loop costs the parts after it: their code and data leave the processor's caches.

A sampled share is what a part itself takes. Where the part goes, the others also become faster, which no sample shows.
"""

import time
from collections.abc import Callable, Sequence
from functools import cache
from statistics import median

import gymnasium
import numpy as np

_ROUNDS = 61
_PROBED_BYTES = 8 << 20


def reload_s(calls: Sequence[Callable[[], object]], cleared_by: Callable[[], object]) -> float:
    """Return the seconds that some calls, one after the other, take longer right after another call than repeated."""
    longer = []
    for _ in range(_ROUNDS):
        cleared_by()
        times = [time.perf_counter()]
        for _ in range(2):
            for call in calls:
                call()
            times.append(time.perf_counter())
        longer.append((times[1] - times[0]) - (times[2] - times[1]))
    return max(0.0, median(longer))


def environments(copies: int) -> Callable[[], object]:
    """Return a call that steps some copies of an environment in Python, in the place of the script's own."""
    several = [gymnasium.make("CartPole-v1") for _ in range(copies)]
    for one in several:
        one.reset(seed=0)

    def call() -> None:
        for one in several:
            _, _, terminated, truncated, _ = one.step(0)
            if terminated or truncated:
                one.reset()

    return call


def copying(seconds: float) -> Callable[[], object]:
    """Return a call that copies as many bytes, into new memory, as take so long on this machine."""
    array = np.ones(max(1, int(seconds * _copied_bytes_per_s())), np.uint8)
    return array.copy


@cache
def _copied_bytes_per_s() -> float:
    array, seconds = np.ones(_PROBED_BYTES, np.uint8), []
    for _ in range(9):
        begin = time.perf_counter()
        array.copy()
        seconds.append(time.perf_counter() - begin)
    return _PROBED_BYTES / median(seconds)
