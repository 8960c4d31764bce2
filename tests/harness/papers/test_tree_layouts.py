"""The check that every layout of the native tree passes, and a wrong tree does not."""

import numpy as np
import numpy.typing as npt
import pytest

from placerl.harness.cli.bench import layouts_bench
from placerl.harness.papers.pal import figure_9_tree
from placerl.harness.papers.tree_layouts import TreeLayout, check


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("fanout", [2, 16, 256])
def test_every_layout_passes(fanout: int, aligned: bool) -> None:
    check(TreeLayout(1000, fanout, aligned).make())


class Wrong:
    """A tree of a thousand priorities that is wrong in one way."""

    def __init__(self, way: str) -> None:
        self._tree, self._way = TreeLayout(1000, 8).make(), way
        self.capacity, self.dtype = self._tree.capacity, self._tree.dtype

    @property
    def total(self) -> float:
        return self._tree.total + (self._way == "total")

    def update(self, indices: npt.NDArray, updated: npt.NDArray) -> None:
        self._tree.update(indices, updated)

    def get(self, indices: npt.NDArray) -> npt.NDArray:
        return self._tree.get(indices) + (self._way == "priorities")

    def find(self, prefixes: npt.NDArray) -> npt.NDArray:
        found = self._tree.find(prefixes)
        return np.minimum(found + 1, 999) if self._way == "prefixes" else found


@pytest.mark.parametrize("way", ["total", "priorities", "prefixes"])
def test_a_wrong_tree_is_found_out(way: str) -> None:
    check(Wrong(""))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"^(the )?{way} "):
        check(Wrong(way))  # type: ignore[arg-type]


def test_the_ablation_and_the_experiments_share_the_check() -> None:
    shared = [figure_9_tree.case(TreeLayout(10, 2), "tree"), *layouts_bench.cases("sample", 10, 4)]
    assert {case.check for case in shared} == {check}
