"""The definition of fixed-point training: the learner that every backend is compared with, its inputs and its state."""

from collections.abc import Iterator

import numpy as np

from placerl.primitives.algorithms import Algorithm
from placerl.primitives.learner import aware_training
from placerl.primitives.learner.aware_training import FixedPointLearner
from placerl.primitives.quantization.executable import FixedPointExecutable
from placerl.primitives.quantization.precision import Precision
from tests.primitives.quantization import cases


def learner(algorithm: Algorithm, precision: Precision) -> FixedPointLearner:
    """The learner of the reference backend."""
    return aware_training.create(
        algorithm, precision, backend="reference", batch_size=cases.BATCH_SIZE, seed=3
    )


def inputs_of(made: FixedPointLearner, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A random batch and the algorithm's own random numbers, as an executable takes them."""
    algorithm = made.algorithm
    inputs = {f"batch/{name}": column for name, column in cases.batch(algorithm, rng).items()}
    inputs["batch/weight"] = np.ones(cases.BATCH_SIZE, np.float32)
    draws = algorithm.draw(cases.BATCH_SIZE, made._generator)
    return inputs | {f"draws/{name}": value.numpy() for name, value in draws.items()}


def raw_state(executable: FixedPointExecutable) -> Iterator[tuple[str, np.ndarray]]:
    """Each array of the state with its name, as the executable stores it."""
    for name in executable.state_buffers:
        yield name, executable.raw(name)
