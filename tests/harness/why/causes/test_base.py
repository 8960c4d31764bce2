"""Gains follow from shares."""

import pytest

from placerl.harness.why.causes.base import LARGEST_GAIN, gain


def test_a_gain_follows_from_what_goes_away() -> None:
    assert gain((0.5, 0)) == 2
    assert gain((0.5, 0.5), (0.25, 0)) == pytest.approx(2)
    assert gain() == 1


def test_where_all_samples_go_away_the_gain_is_finite() -> None:
    assert gain((1.0, 0)) == gain((0.7, 0), (0.3, 0)) == LARGEST_GAIN
