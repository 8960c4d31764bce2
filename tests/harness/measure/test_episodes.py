"""Means of episodes in a row, and where they rise above all before."""

import numpy as np

from placerl.harness.measure.episodes import EPISODES, new_highs, running_means


def test_a_mean_is_of_episodes_in_a_row() -> None:
    assert running_means(range(EPISODES + 2)).tolist() == [9.5, 10.5, 11.5]
    assert running_means([1.0] * (EPISODES - 1)).size == 0


def test_the_means_above_all_before_say_when_each_level_was_reached() -> None:
    assert new_highs(np.array([-3.0, -3.0, -4.0, -1.0, 0.0, -2.0, 0.0, 5.0])).tolist() == [0, 3, 4, 7]
    assert new_highs(np.empty(0)).tolist() == []
    means = running_means(np.random.default_rng(0).normal(size=500).tolist())
    highs = new_highs(means)
    for level in np.linspace(-1, 1, 41):
        assert (means >= level).any() == (means[highs] >= level).any()
        if (means >= level).any():
            assert np.flatnonzero(means >= level)[0] == highs[np.flatnonzero(means[highs] >= level)[0]]
