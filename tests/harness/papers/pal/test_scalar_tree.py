"""PAL's own tree answers as the project's reference does, for every K and both layouts."""

import numpy as np
import pytest

from placerl.harness.papers.pal.scalar_tree import ScalarSumTree
from placerl.harness.papers.tree_layouts import check, priorities
from placerl.primitives import sum_tree


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("fanout", [2, 3, 7, 16, 100, 256])
@pytest.mark.parametrize("capacity", [1, 2, 255, 256, 257, 5000])
def test_finds_and_totals_are_those_of_the_reference(capacity: int, fanout: int, aligned: bool) -> None:
    rng = np.random.default_rng(capacity * fanout)
    tree, reference = ScalarSumTree(capacity, fanout, aligned), sum_tree.create(capacity, backend="reference")
    for _ in range(3):
        leaves, values = rng.integers(0, capacity, 300), rng.integers(0, 5, 300)
        tree.update(leaves, values)
        reference.update(leaves, values)
    assert tree.total == reference.total
    every = np.arange(capacity)
    assert np.array_equal(tree.get(every), reference.get(every))
    if tree.total:
        prefixes = np.arange(int(tree.total))
        assert np.array_equal(tree.find(prefixes), reference.find(prefixes))


def test_it_passes_the_check_of_every_layout() -> None:
    tree = ScalarSumTree(100_000, 64)
    tree.update(np.arange(100_000), priorities(np.random.default_rng(0), 100_000))
    check(tree)


@pytest.mark.parametrize(("aligned", "offset"), [(True, 0), (False, 4)])
def test_padding_the_root_moves_groups_to_the_start_of_a_cache_line(aligned: bool, offset: int) -> None:
    assert ScalarSumTree(1000, 16, aligned).group_offset_bytes == offset


def test_one_call_samples_first_and_updates_then() -> None:
    tree = ScalarSumTree(4, 2)
    tree.update([0, 1, 2, 3], [1, 1, 1, 1])
    drawn = tree.sample_and_update(np.array([0.1, 0.9]), np.array([0, 3]), np.array([0.0, 5.0]))
    assert drawn.tolist() == [0, 3]
    assert tree.get([0, 1, 2, 3]).tolist() == [0, 1, 1, 5]
    assert tree.total == 7


def test_what_a_call_cannot_take_is_refused() -> None:
    tree = ScalarSumTree(4, 2)
    one = np.zeros(1)
    with pytest.raises(ValueError, match="a tree that is not empty"):
        tree.sample_and_update(one, np.zeros(1, np.int64), one)
    tree.update([0], [1.0])
    with pytest.raises(ValueError, match="as many as draws"):
        tree.sample_and_update(one, np.zeros(2, np.int64), np.zeros(2))
    with pytest.raises(ValueError, match="as many as draws"):
        tree.sample_and_update(one, np.full(1, 4), one)
    with pytest.raises(TypeError, match="contiguous vector"):
        tree.sample_and_update(one, one, one)
