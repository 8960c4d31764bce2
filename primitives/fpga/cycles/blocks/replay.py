"""The crossbar and the arbiters of a replay pipeline with S sub-trees, in the wide form (`replay_pipeline.timer`).

The cycles of a batch depend on which sub-tree each request goes to. The table has those of recorded batches. The
software of `cycles.replay_timer` counts the cycles of any others, and must give the same for the recorded ones.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga.cycles.timed_block import TimedBlock
from placerl.primitives.fpga.replay_pipeline.timer import SimulatedReplayTimer

Batch = tuple[NDArray[np.int64], NDArray[np.int64], bool]
"""The sub-tree and the lane of each request of a batch, and whether all write."""
LEVELS, FANOUT = 5, 16
"""The tree whose cycles are recorded: further levels and children only delay a response (`cycles.replay`)."""
COUNTS, BATCHES, SEED = (1, 7, 32, 256), 24, 0
"""Requests of the recorded batches, the batches of each such number, and the seed with which they are drawn."""
SIZES = [[count, BATCHES, SEED] for count in COUNTS]


def drawn_batches(banks: int, count: int, batches: int, seed: int) -> Iterator[Batch]:
    """Yield batches of requests that make lanes wait in different ways; the same for the same arguments.

    Banks are drawn in three ways in turn: in ascending order, as the samples of a batch come; in any order; and only
    from the first quarter of the sub-trees, as of a replay that has just begun to fill.

    Args:
        count: requests of a batch.
        batches: number of batches.
    """
    rng = np.random.default_rng(seed)
    for number in range(batches):
        writes = bool(rng.integers(2))
        drawn = rng.integers(0, max(1, banks // 4) if number % 3 == 2 else banks, count)
        lanes = rng.integers(0, banks, count) if writes else np.arange(count) % banks
        yield np.sort(drawn) if number % 3 == 0 else drawn, lanes, writes


def build(banks: int) -> Any:
    """Return a pipeline whose sub-trees have two leaves each."""
    from placerl.primitives.fpga.replay_pipeline.timer import smallest

    return smallest(banks)


def simulate(start: Callable[[], Any], parameters: Sequence[Any], sizes: Sequence[Any]) -> list[list[int]]:
    """Return the cycles of the batches of each recording, in their order, as the state lasts from one to the next.

    Args:
        sizes: the requests of a batch, the number of batches, and the seed of each recording.
    """
    (banks,) = parameters
    found = []
    for count, batches, seed in sizes:
        timer = SimulatedReplayTimer(banks, LEVELS, FANOUT, start)
        drawn = drawn_batches(banks, count, batches, seed)
        found.append([timer.cycles(to, lanes, writes=writes) for to, lanes, writes in drawn])
    return found


BLOCK = TimedBlock(
    "replay",
    "placerl.primitives.fpga.replay_pipeline.timer",
    build,
    simulate,
    example=lambda size: [1] * size[1],
)
