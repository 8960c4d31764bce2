"""What a training step of the accelerator takes: random samples and the settings of its update; and a tiny shape."""

import numpy as np

from placerl.primitives.fpga.fixar.adam import corrections
from placerl.primitives.fpga.fixar.shape import FixarShape
from tests.primitives.fpga.fixar.golden import RawBatch, UpdateSettings

# Layers with one, two and three blocks across, with biases inside a block and in one of their own.
TINY = FixarShape(state=5, action=2, hidden=(8, 6), side=4)


def batch(rng: np.random.Generator, shape: FixarShape, size: int) -> RawBatch:
    """Random samples in the accelerator's fixed point."""

    def numbers(*sizes: int, scale: float = 1.0) -> np.ndarray:
        return np.round(rng.normal(0, scale, sizes) * 2**16).astype(np.int64)

    return RawBatch(
        state=numbers(size, shape.state, scale=2),
        action=np.clip(numbers(size, shape.action), -(2**16), 2**16),
        reward=numbers(size),
        next_state=numbers(size, shape.state, scale=2),
        discount=np.round(0.99 * 2**30 * (rng.random(size) > 0.2)).astype(np.int64),
        weight=np.round(rng.uniform(0.5, 1, size) * 2 / size * 2**30).astype(np.int64),
    )


def settings(step: int, size: int) -> UpdateSettings:
    """The settings of a step, counted from 1, on so many samples."""
    critic_rate, epsilon = corrections(1e-3, step)
    actor_rate, _ = corrections(1e-4, step)
    return UpdateSettings(critic_rate, actor_rate, epsilon, 328, -round(2**24 / size))
