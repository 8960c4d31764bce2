"""What the binary tree promises to threads; the conformance suite tests the rest."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from placerl.primitives import sum_tree
from placerl.primitives.sum_tree.base import fractions

LEAVES = np.arange(50)


def tree_of(priorities: np.ndarray) -> sum_tree.SumTree:
    tree = sum_tree.create(len(LEAVES), backend="binary", dtype=np.float64)
    tree.update(LEAVES, priorities)
    return tree


class Interrupted(np.random.Generator):
    """Makes a call whenever numbers are drawn, as another thread may then."""

    def __init__(self, seed: int, meanwhile: Callable[[], None]) -> None:
        super().__init__(np.random.PCG64(seed))
        self.meanwhile = meanwhile

    def random(self, *arguments: Any) -> Any:
        self.meanwhile()
        return super().random(*arguments)


@pytest.mark.parametrize("stratified", [False, True])
def test_a_sample_draws_the_leaves_that_find_finds(stratified: bool) -> None:
    priorities = np.random.default_rng(1).random(len(LEAVES)) * (LEAVES % 3 > 0)
    tree = tree_of(priorities)
    places = fractions(300, np.random.default_rng(2), stratified) * tree.total
    found = tree.sample(300, np.random.default_rng(2), stratified)
    np.testing.assert_array_equal(found, tree.find(np.minimum(places, np.nextafter(tree.total, 0.0))))
    assert (priorities[found] > 0).all()


def test_a_sample_is_of_the_tree_at_one_moment() -> None:
    tree = tree_of(np.ones(len(LEAVES)))
    falling = Interrupted(3, lambda: tree.update(LEAVES, 1e-6 * (LEAVES == 7)))
    assert tree.sample(20, falling).tolist() == [7] * 20
    tree.update(LEAVES, np.ones(len(LEAVES)))
    emptied = Interrupted(3, lambda: tree.update(LEAVES, np.zeros(len(LEAVES))))
    with pytest.raises(ValueError, match="total: found 0; allowed: at least one positive priority"):
        tree.sample(20, emptied)
