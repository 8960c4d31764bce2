"""The table of tanh next to the function itself."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.fixar.shape import ONE
from placerl.primitives.fpga.fixar.tanh import LIMIT
from tests.primitives.fpga.fixar.golden import tanh_golden


def test_it_is_within_three_units_of_tanh_and_odd() -> None:
    # Two roundings, and h^2 / 8 times the largest second derivative: 0.5 + 0.5 + 1.54 units of 2^-16.
    raw = np.arange(0, LIMIT + 4096, 7)
    found = tanh_golden(raw)
    assert np.abs(found - np.tanh(raw / ONE) * ONE).max() <= 3
    assert (np.diff(found) >= 0).all()
    np.testing.assert_array_equal(tanh_golden(-raw), -found)
    assert tanh_golden(np.array([-(1 << 31), (1 << 31) - 1])).tolist() == [-ONE, ONE]
