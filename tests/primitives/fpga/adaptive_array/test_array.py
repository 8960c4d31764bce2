"""The adaptive array: exact products in both modes, whole and half words, and cycles to the cycle."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.adaptive_array.simulation import MODES, SimulatedAdaptiveArray
from placerl.primitives.fpga.cycles import fixar

sizes = st.integers(1, 7)


@cache
def array(cores: int, side: int) -> SimulatedAdaptiveArray:
    return SimulatedAdaptiveArray(cores=cores, side=side, width=8, accumulator_depth=16)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("cores", "side"), [(2, 2), (3, 3)])
@settings(max_examples=5, deadline=None)
@given(
    outputs=sizes, inputs=st.integers(1, 10), count=sizes, halves=st.booleans(), seed=st.integers(0, 2**32)
)
def test_products_and_cycles(
    cores: int, side: int, mode: str, outputs: int, inputs: int, count: int, halves: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    limit = 8 if halves else 128
    matrix, vectors = rng.integers(-128, 128, (outputs, inputs)), rng.integers(-limit, limit, (inputs, count))
    outcome = array(cores, side).multiply(matrix, vectors, mode=mode, halves=halves)
    np.testing.assert_array_equal(outcome.product, matrix @ vectors)
    assert outcome.cycles == fixar.layer_cycles(
        outputs, inputs, count, cores=cores, side=side, inference=mode == "inference", halves=halves
    )


def test_half_words_double_the_throughput() -> None:
    sizes = {"cores": 2, "side": 16, "inference": False}
    whole = fixar.layer_cycles(304, 400, 1024, halves=False, **sizes)
    half = fixar.layer_cycles(304, 400, 1024, halves=True, **sizes)
    assert 2 * half - whole == fixar.layer_cycles(304, 400, 0, **sizes) - 474 * 16  # fill and drain alone


def test_what_the_array_refuses() -> None:
    with pytest.raises(ValueError, match="mode: found 'both'"):
        array(2, 2).multiply(np.zeros((2, 2), int), np.zeros((2, 1), int), mode="both")
    with pytest.raises(ValueError, match="vectors: found 3 rows; allowed: 2"):
        array(2, 2).multiply(np.zeros((2, 2), int), np.zeros((3, 1), int), mode="training")
