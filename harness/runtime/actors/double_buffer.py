"""Double-buffered weights (PRL 3.3.2): actors read one buffer while the other gets the learner's new weights."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from placerl.primitives.learner import Learner


class DoubleBufferedPolicy:
    """A policy with its own copies of the learner's weights, so that actors may use it while the learner trains.

    Args:
        learner: the learner whose weights are copied; both buffers start with its current weights.
    """

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._buffers = [learner.policy_parameters(), learner.policy_parameters()]
        self._policy = learner.policy()
        self._read = 0

    def publish(self) -> None:
        """Copy the learner's weights into the buffer that no actor reads. The learner must not step meanwhile."""
        self._buffers[1 - self._read] = self._learner.policy_parameters()

    def swap(self) -> None:
        """Make actors read the weights that were published last. No actor may act during this call."""
        self._read = 1 - self._read

    def acting_td_errors(self, transitions: Mapping[str, npt.NDArray]) -> npt.NDArray:
        """Return TD errors of transitions by column, (n,), by the weights that actors read."""
        return self._policy.acting_td_errors(self._buffers[self._read], transitions)

    def __call__(
        self, observations: npt.NDArray, environment_step: int, rng: np.random.Generator
    ) -> npt.NDArray:
        """Return an exploring action for each observation, by the weights that actors read; see `Algorithm.explore`."""
        parameters = self._buffers[self._read]
        return self._policy.explore(parameters, observations, environment_step, rng)
