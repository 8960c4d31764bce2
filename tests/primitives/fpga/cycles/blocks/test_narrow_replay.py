"""The narrow replay: what is simulated for the table, and that it takes the cycles of the whole tree."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives import sum_tree
from placerl.primitives.fpga.cycles.blocks import narrow_replay
from placerl.primitives.fpga.export import toolchain

pytestmark = pytest.mark.skipif(
    bool(toolchain.unavailable_reason()), reason=toolchain.unavailable_reason() or "available"
)
COUNTS = [5, 40]


def tree_cycles(leaves: int, fanout: int, levels: int, banks: int) -> list[tuple[int, list[int]]]:
    """Return what the block simulates, from the tree with its data."""
    tree = sum_tree.create(leaves, backend="fpga", fanout=fanout, form="narrow", banks=banks, levels=levels)
    tree.update(np.arange(leaves), np.ones(leaves))
    found = []
    for count in COUNTS:
        rng = np.random.default_rng(count)
        for call in narrow_replay.CALLS:
            if call == "sample":
                drawn = tree.sample(count, rng)
            else:
                drawn = rng.integers(0, leaves, count)
                tree.update(drawn, np.ones(count))
            found.append(
                (tree.last_call_cycles, np.bincount(drawn // tree.bank_leaves, minlength=banks).tolist())
            )
    return found


@pytest.mark.parametrize("banks", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_tree_of_one_level_takes_the_cycles_of_the_whole_tree(banks: int) -> None:
    (found,) = narrow_replay.BLOCK.simulated([4, banks], [[24, 3, COUNTS]])
    assert found == tree_cycles(24, 4, 3, banks)
