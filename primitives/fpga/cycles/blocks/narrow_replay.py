"""A replay pipeline with S sub-trees in the narrow form, in which a level reads one child per cycle (MAP IV-C4).

The table has the cycles of alternating batches of samples and updates of a tree whose priorities are all 1, and so the
sub-tree of each request: batch size by batch size, each with its own seed. The simulated pipeline is
`replay_pipeline.timer`'s, whose sub-trees have one level.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga.cycles.timed_block import TimedBlock
from placerl.primitives.fpga.replay_pipeline.layout import Form
from placerl.primitives.fpga.replay_pipeline.timer import SimulatedReplayTimer
from placerl.primitives.sum_tree.fpga_tree import lanes_of

FORM, CALLS = "narrow", ("sample", "update")


def requested(leaves: int, call: str, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the leaves of a batch of requests to a tree of equal priorities, (count,).

    Args:
        call: "sample" or "update".
    """
    if call == "sample":
        return np.floor(rng.random(count) * leaves).astype(np.int64)
    return rng.integers(0, leaves, count)


def build(fanout: int, banks: int) -> Any:
    """Return a pipeline whose sub-trees have one level."""
    from placerl.primitives.fpga.replay_pipeline.timer import smallest

    return smallest(banks, fanout, Form.NARROW)


def simulate(
    start: Callable[[], Any], parameters: Sequence[Any], sizes: Sequence[Any]
) -> list[list[tuple[int, list[int]]]]:
    """Return for each batch its cycles, and the number of its requests for each sub-tree.

    Args:
        sizes: the leaves of the tree, the levels of a sub-tree, and the batch sizes, at each of which samples and
            then updates are requested.
    """
    fanout, banks = parameters
    found = []
    for leaves, levels, counts in sizes:
        timer = SimulatedReplayTimer(banks, levels, fanout, start, Form(FORM))
        cycles = []
        for count in counts:
            rng = np.random.default_rng(count)
            for call in CALLS:
                drawn, writes = requested(leaves, call, count, rng), call == "update"
                to, lanes = drawn // -(-leaves // banks), lanes_of(drawn, banks, writes=writes)
                taken = timer.cycles(to, lanes, writes=writes)
                cycles.append((taken, np.bincount(to, minlength=banks).tolist()))
        found.append(cycles)
    return found


BLOCK = TimedBlock(
    "narrow_replay",
    "placerl.primitives.fpga.replay_pipeline.timer",
    build,
    simulate,
    example=lambda size: [(count, [count]) for count in size[-1] for _ in CALLS],
)
