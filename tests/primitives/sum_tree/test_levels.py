"""The levels of a tree, where a logarithm is rounded up too."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placerl.primitives.sum_tree.levels import levels_of


@pytest.mark.parametrize(
    ("leaves", "fanout", "levels"),
    [(4096, 16, 3), (4097, 16, 4), (125, 5, 3), (2**29, 2, 29), (1_000_000, 16, 5), (1, 2, 1), (16, 16, 1)],
)
def test_levels_are_those_of_a_full_tree(leaves: int, fanout: int, levels: int) -> None:
    assert levels_of(leaves, fanout) == levels


@given(st.integers(1, 12), st.integers(2, 256))
def test_a_power_of_the_fanout_fills_its_levels_and_one_leaf_more_takes_another(
    levels: int, fanout: int
) -> None:
    assert levels_of(fanout**levels, fanout) == levels
    assert levels_of(fanout**levels + 1, fanout) == levels + 1
