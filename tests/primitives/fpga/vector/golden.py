"""The golden model of the Gaussian generator."""

from collections.abc import Sequence

import numpy as np

from placerl.primitives.fpga.floating_point import golden
from placerl.primitives.fpga.floating_point.golden import Array
from placerl.primitives.fpga.floating_point.operators import ProgramBuilder, StreamProgram
from placerl.primitives.fpga.vector.random_generator import MEAN, UNIFORM_BITS, WORD_BITS, State


def gaussian_golden(states: Sequence[State], count: int) -> Array:
    """Return the first `count` numbers, float32, of a `GaussianGenerator`: its golden model.

    Args:
        states: start states of the six uniform generators, as `seeds` returns them.
        count: how many numbers.
    """
    words = np.array([xorshift_golden(state, count) for state in states], np.int64)
    sums = (words & (1 << UNIFORM_BITS) - 1).sum(0) + (words >> UNIFORM_BITS).sum(0)
    return golden.from_fixed(sums - MEAN, UNIFORM_BITS)


def xorshift_golden(state: State, count: int) -> list[int]:
    """Return the first `count` words of an `Xorshift` with this start state: its golden model."""
    words = []
    x, y, z, w = state
    for _ in range(count):
        t = (x ^ x << 11) & (1 << WORD_BITS) - 1
        x, y, z, w = y, z, w, w ^ w >> 19 ^ t ^ t >> 8
        words.append(w)
    return words


def exploration_program(deviation: float) -> StreamProgram:
    """Return the stream unit's program that adds exploration noise to an action and limits it to [-1, 1].

    Its inputs are the action and a Gaussian number, which it multiplies by `deviation`.
    """
    b = ProgramBuilder(2)
    noisy = b.apply("add", 0, b.apply("mul", 1, b.constant(deviation)))
    return b.finished([b.apply("minimum", b.apply("maximum", noisy, b.constant(-1)), b.constant(1))])
