"""Choose by measurement which levels of the native sum tree store running sums of a node's children.

Running sums make a descent faster, but the first one after updates brings them up to date. Prioritised replay updates
each item that it samples, so a sample and an update of the same batch are timed together. Which choice is fastest
depends on the instruction set and the caches. The choice changes no result (`native/kernels_body.hpp`).
"""

from functools import cache
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from placerl.primitives.measured_choice import measured_choice

CHOICES = (256, 4096, 65536)
"""The choices that are timed: a level with at most this many values stores running sums."""
MEASURED_S = 0.1
BATCH_SIZE = 256
_CAPACITIES = (2**16, 2**20)
_FEWEST_ROUNDS = 5
_CALLS = 64
"""Calls of a turn, so that the first ones, with the caches of the tree before, count little."""
_TOLERANCE = 1.05
"""Of the choices that take at most this many times the least time, the one with most levels is taken: it finds faster,
and no choice changes the time of an update alone.
"""


def running_sums_max(capacity: int, fanout: int, item_bytes: int = 4, simd: str = "") -> int:
    """Return the fastest limit for running sums on this processor: levels with at most this many values store them.

    It is one of `CHOICES`, measured once on a machine and then kept (`measured_choice`).

    Args:
        capacity: number of leaves. Trees of at most 2^16 leaves use the measurement at 2^16, larger ones that at 2^20.
        fanout: children of a node; the measurement is made with the next power of two.
        item_bytes: 4 for float32, 8 for float64.
        simd: instruction set, "avx512", "avx2" or "portable"; empty for the widest one of this processor.
    """
    from placerl.primitives import _native

    if capacity <= CHOICES[0]:
        return CHOICES[0]  # the whole tree keeps them
    measured = _CAPACITIES[capacity > _CAPACITIES[0]]
    return _break_even(
        measured, 1 << (fanout - 1).bit_length(), item_bytes, simd or str(_native.simd_level())
    )


@cache
def _break_even(capacity: int, fanout: int, item_bytes: int, simd: str) -> int:
    parts = (str(capacity), str(fanout), str(item_bytes), simd)
    (chosen,) = measured_choice(
        "running_sums", parts, lambda: [_fastest(capacity, fanout, item_bytes, simd)], [CHOICES]
    )
    return chosen


def _fastest(capacity: int, fanout: int, item_bytes: int, simd: str) -> int:
    """Time a tree of each choice in turns, and return the choice of about the least time.

    The times are processor time of this thread, and the least of all rounds counts: neighbours only add.
    """
    from placerl.primitives._native import sum_tree

    kind = sum_tree.Tree32 if item_bytes == 4 else sum_tree.Tree64
    rng = np.random.default_rng(0)
    priorities = rng.random(capacity, dtype=np.float32) + np.float32(0.01)
    trees: dict[int, Any] = {}
    for choice in CHOICES:
        trees[choice] = kind(capacity, fanout, 1e30, True, choice, simd, 1)
        trees[choice].update(np.arange(capacity), priorities)
    least_s = dict.fromkeys(CHOICES, np.inf)
    begin_s = perf_counter()
    rounds = 0
    while rounds < _FEWEST_ROUNDS or perf_counter() - begin_s < MEASURED_S:
        values = rng.random((_CALLS, BATCH_SIZE), dtype=np.float32)
        for choice, tree in trees.items():
            start_s = thread_time()
            for call in values:
                tree.update(tree.sample(BATCH_SIZE, rng, False), call)
            least_s[choice] = min(least_s[choice], thread_time() - start_s)
        rounds += 1
    least = min(least_s.values())
    return max(choice for choice in CHOICES if least_s[choice] <= _TOLERANCE * least)
