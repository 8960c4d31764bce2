"""Trains with PPO in iterations that are each one native call (`primitives.training.on_policy`)."""

import numpy as np

from placerl.harness.core.provenance import Provenance
from placerl.harness.environments import native_pool
from placerl.harness.runtime.actors.actor import Episode
from placerl.harness.runtime.compose import environment_seeds
from placerl.harness.runtime.on_policy_loop import OnPolicyLoop
from placerl.harness.runtime.resolve import Resolved
from placerl.primitives.learner import Learner
from placerl.primitives.training.on_policy import OnPolicyIterations, Sources


class NativeIterations(OnPolicyLoop):
    """On-policy training (PPO) in which each iteration is one native call.

    The same seed draws the same random numbers as `OnPolicyTraining`: both train the same until the differences of
    rounding have grown (`primitives.training.on_policy`).

    Args:
        resolved: what is trained, and how; learner and environments are native, and there is no actor process.
        learner: the learner; None creates the mapping's.

    Attributes:
        gradient_steps: gradient steps taken so far.
        learner: the learner.
        provenance: always "measured".

    Raises:
        UserError: the learner cannot be created.
    """

    provenance = Provenance.MEASURED

    def __init__(self, resolved: Resolved, *, seed: int = 0, learner: Learner | None = None) -> None:
        super().__init__(resolved, seed, learner)
        sources = Sources(
            np.array(environment_seeds(self._environment_seed, self._actors), np.uint64),
            np.random.default_rng(self._exploration_seed),
            np.random.default_rng(self._dealing_seed),
        )
        environments = native_pool.make(resolved.workload.environment, self._actors, "same_step")
        self._iterations = OnPolicyIterations(self.learner, environments, sources)

    @property
    def environment_steps(self) -> int:
        """Return the number of environment steps taken so far, over all environments."""
        return self._iterations.environment_steps

    def close(self) -> None:
        """Do nothing: memory is freed with the object."""

    def _iterate(self, iterations: int) -> None:
        before = self.learner.gradient_steps
        try:
            self._iterations.run(iterations)
        finally:
            self.gradient_steps += self.learner.gradient_steps - before

    def _take_episodes(self) -> list[Episode]:
        return [Episode(step, total) for step, total in self._iterations.take_episodes()]

    def _terms_s(self) -> dict[str, float]:
        return self._iterations.spent_s()

    def _losses(self) -> dict[str, float]:
        return self._iterations.losses
