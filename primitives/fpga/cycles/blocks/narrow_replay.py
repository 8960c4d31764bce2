"""A replay pipeline with S sub-trees in the narrow form, in which a level reads one child per cycle, with its data.

A sample's cycles depend on the data. The table has those of alternating batches of samples and updates of a tree whose
priorities are all 1: batch size by batch size, each with its own seed.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placerl.primitives.fpga.cycles.timed_block import TimedBlock
from placerl.primitives.sum_tree.fpga_tree import FpgaSumTree, PipelineOptions

FORM, CALLS = "narrow", ("sample", "update")


def _options(levels: int, banks: int) -> PipelineOptions:
    return PipelineOptions(form=FORM, banks=banks, levels=levels)


def build(fanout: int, levels: int, banks: int) -> Any:
    """Return the pipeline."""
    from placerl.primitives.sum_tree.fpga_tree import design

    return design(fanout, _options(levels, banks))


def requested(tree: Any, call: str, count: int, rng: np.random.Generator) -> list[int]:
    """Make a batch of requests to a tree, and return the number of them for each sub-tree.

    Args:
        tree: a filled `FpgaSumTree`; with several sub-trees the batch before it must have been of the other kind.
        call: "sample" or "update".
    """
    if call == "sample":
        leaves = tree.sample(count, rng)
    else:
        leaves = rng.integers(0, tree.capacity, count)
        if tree.banks == 1 and len(tree.last_found) >= count:
            leaves = tree.last_found[:count]  # their paths are in the pipeline's buffer (MAP IV-D4)
        tree.update(leaves, np.ones(count))
    loads: list[int] = np.bincount(leaves // tree.bank_leaves, minlength=tree.banks).tolist()
    return loads


def simulate(
    start: Callable[[], Any], parameters: Sequence[Any], sizes: Sequence[Any]
) -> list[list[tuple[int, list[int]]]]:
    """Return for each batch its cycles, and the number of its requests for each sub-tree.

    Args:
        start: not used: the tree starts a simulation of the same design.
        sizes: the leaves of the tree, and the batch sizes, at each of which samples and then updates are requested.
    """
    fanout, levels, banks = parameters
    found = []
    for leaves, counts in sizes:
        tree = FpgaSumTree(leaves, fanout, _options(levels, banks))
        tree.update(np.arange(leaves), np.ones(leaves))
        cycles = []
        for count in counts:
            rng = np.random.default_rng(count)
            for call in CALLS:
                loads = requested(tree, call, count, rng)
                cycles.append((tree.last_call_cycles, loads))
        found.append(cycles)
    return found


BLOCK = TimedBlock(
    "narrow_replay",
    "placerl.primitives.fpga.replay_pipeline.banked",
    build,
    simulate,
    example=lambda size: [(count, [count]) for count in size[1] for _ in CALLS],
)
