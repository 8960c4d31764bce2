"""Gains follow from shares."""

import pytest

from placerl.harness.why.causes.base import gain


def test_a_gain_follows_from_what_goes_away() -> None:
    assert gain((0.5, 0)) == 2
    assert gain((0.5, 0.5), (0.25, 0)) == pytest.approx(2)
    assert gain() == 1
