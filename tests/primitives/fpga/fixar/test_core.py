"""A core and the adder of gradients next to products of integers."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from hypothesis import example, given, settings
from hypothesis import strategies as st

from placerl.primitives.fpga.fixar.core import BlockCore, GradientAdder, sum_latency
from placerl.primitives.fpga.simulation.base import Simulation
from tests.primitives.fpga.interpreter import interpreted

SIDE = 4
WORDS = st.integers(-(1 << 31), (1 << 31) - 1)
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)


@pytest.fixture(scope="module")
def core() -> Simulation:
    return interpreted(BlockCore(side=SIDE))


@pytest.fixture(scope="module")
def adder() -> Simulation:
    return interpreted(GradientAdder())


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1 << 30), blocks=st.integers(1, 5), halves=st.booleans())
def test_sums_over_blocks_are_those_of_the_product(
    core: Simulation, seed: int, blocks: int, halves: bool
) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.integers(-(1 << 31), 1 << 31, (blocks, SIDE, SIDE))  # (block, row, column)
    bound = 1 << (15 if halves else 31)
    values = rng.integers(-bound, bound, (2 if halves else 1, blocks, SIDE))
    words = (values[0] & 0xFFFF | values[1] << 16) if halves else values[0]
    core.write("halves", int(halves))
    for number in range(blocks):
        core.write("take", 1)
        core.write("restart", int(number == 0))
        core.write("activations", words[number])
        for i in range(SIDE):
            core.write(f"weights_{i}", weights[number, i])
        core.step()
        core.write("take", 0)  # gaps between blocks change nothing
        core.step(int(rng.integers(0, 3)))
    core.step(sum_latency(SIDE))
    totals = np.asarray(core.read("totals"))
    for lane, own in enumerate(values):
        np.testing.assert_array_equal(totals[:, lane], np.einsum("bi,bij->j", own, weights))


@settings(max_examples=50, deadline=None)
@given(first=LONGS, second=LONGS, gradient=WORDS)
# Rounding carries into one more bit.
@example(first=(1 << 63) - 1, second=(1 << 63) - 1, gradient=0)
@example(first=-(1 << 63), second=-(1 << 63), gradient=-1)
def test_a_gradient_is_rounded_once_and_limited(
    adder: Simulation, first: int, second: int, gradient: int
) -> None:
    adder.write("products", np.array([first, second]))
    adder.write("gradient", gradient)
    adder.step()
    exact = gradient + ((first + second + (1 << 15)) >> 16)
    assert adder.read("total") == min(max(exact, -(1 << 31)), (1 << 31) - 1)
