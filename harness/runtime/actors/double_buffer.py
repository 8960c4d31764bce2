"""Double-buffered weights (PRL 3.3.2): actors read one buffer while the learner's weights go into the other."""

import numpy as np
import numpy.typing as npt

from primitives.learner import Learner


class DoubleBufferedPolicy:
    """A policy on a copy of the learner's weights, which actors may use while the learner trains.

    Args:
        learner: whose weights are acted on; both buffers start with them as they are now.
    """

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._buffers = [learner.parameters(), learner.parameters()]
        self._read = 0

    def publish(self) -> None:
        """Copy the learner's weights into the buffer that nobody reads. The learner must stand still."""
        self._buffers[1 - self._read] = self._learner.parameters()

    def swap(self) -> None:
        """Let actors read what was published last. The actors must stand still."""
        self._read = 1 - self._read

    def __call__(
        self, observations: npt.NDArray, environment_step: int, rng: np.random.Generator
    ) -> npt.NDArray:
        """Actions that explore, as `Algorithm.explore`."""
        parameters = self._buffers[self._read]
        return self._learner.algorithm.explore(parameters, observations, environment_step, rng)
