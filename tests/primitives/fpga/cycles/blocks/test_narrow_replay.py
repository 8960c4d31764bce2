"""The narrow replay: what is simulated for the table."""

from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cycles.blocks import narrow_replay
from placerl.primitives.fpga.export import toolchain, verilog
from placerl.primitives.sum_tree import fpga_tree
from placerl.primitives.sum_tree.fpga_tree import FpgaSumTree

pytestmark = pytest.mark.skipif(
    bool(toolchain.unavailable_reason()), reason=toolchain.unavailable_reason() or "available"
)


def refuse() -> Any:
    pytest.fail("the tree starts the simulation")


def test_updates_take_their_paths_from_the_samples_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """And have the cycles of updates that name their paths (MAP IV-D4)."""
    made: list[FpgaSumTree] = []

    class Kept(FpgaSumTree):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(narrow_replay, "FpgaSumTree", Kept)
    options = narrow_replay.PipelineOptions
    found = []
    for remembers in (True, False):
        monkeypatch.setattr(narrow_replay, "PipelineOptions", partial(options, remembers=remembers))
        found += narrow_replay.simulate(refuse, [4, 2, 1], [[16, [5, 9]]])
    assert found[0] == found[1]
    assert [loads for _, loads in found[0]] == [[5], [5], [9], [9]]
    assert [tree.remembered_updates for tree in made] == [5 + 9, 0]


def test_the_design_of_the_table_is_the_one_that_the_tree_simulates(monkeypatch: pytest.MonkeyPatch) -> None:
    from placerl.primitives.fpga import simulation

    built: list[Any] = []
    monkeypatch.setattr(simulation, "built", lambda design: built.append(design) or pytest.skip("never"))
    for fanout, levels, banks in ((4, 2, 1), (2, 3, 2)):
        built.clear()
        fpga_tree._library.cache_clear()
        with pytest.raises(pytest.skip.Exception):
            FpgaSumTree(banks * fanout**levels, fanout, narrow_replay._options(levels, banks))
        texts = [
            verilog.export(design, reset=False)
            for design in (*built, narrow_replay.build(fanout, levels, banks))
        ]
        assert texts[0] == texts[1]


def test_requests_are_counted_by_sub_tree() -> None:
    class Tree:
        banks, bank_leaves, capacity = 2, 4, 8
        last_found = np.zeros(0, np.int64)

        def sample(self, count: int, rng: np.random.Generator) -> Any:
            return np.array([0, 1, 7])

        def update(self, leaves: Any, priorities: Any) -> None:
            assert len(leaves) == len(priorities) == 3

    rng = np.random.default_rng(0)
    assert narrow_replay.requested(Tree(), "sample", 3, rng) == [2, 1]
    assert sum(narrow_replay.requested(Tree(), "update", 3, rng)) == 3
