"""The golden model of the learner pipeline: the sums that the hardware holds, and those that it would wrap."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.learner_pipeline.layer_shape import FORMAT
from tests.primitives.fpga.learner_pipeline.golden import forward, gradients, input_errors

LOWEST, HIGHEST = FORMAT.lowest, FORMAT.highest


def raw(*values: int) -> np.ndarray:
    """A matrix of one row of raw values."""
    return np.array([values], np.int32)


@pytest.mark.parametrize("inputs", [(LOWEST, LOWEST), (HIGHEST, HIGHEST)])
def test_weights_that_add_up_to_less_than_the_bound_saturate(inputs: tuple[int, int]) -> None:
    """Two weights at the range's end and the smallest bias have magnitudes of 2^16 less one unit."""
    weight = raw(HIGHEST, HIGHEST, 1)
    assert np.abs(weight.astype(np.int64)).sum() == (1 << 16 + FORMAT.fraction_bits) - 1
    assert forward([weight], raw(*inputs))[-1] == (LOWEST if inputs[0] < 0 else HIGHEST)


def test_sums_that_the_hardware_would_wrap_are_refused() -> None:
    column = raw(LOWEST, LOWEST).T  # from one input to two outputs
    with pytest.raises(OverflowError, match="sum of products: found more than 64 bits"):
        forward([raw(LOWEST, LOWEST, 0)], raw(LOWEST, LOWEST))
    with pytest.raises(OverflowError, match="sum of products"):
        input_errors([np.append(column, np.zeros_like(column), axis=1)], [raw(0)], raw(LOWEST, LOWEST))
    with pytest.raises(OverflowError, match="sum of products"):  # two samples
        gradients([raw(0, 0)], [column], column)
