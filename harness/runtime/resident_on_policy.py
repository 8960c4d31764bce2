"""Training with PPO in iterations that never leave the device, run by `primitives.training.resident_iterations`."""

from time import perf_counter

import numpy as np

from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.runtime.actors.actor import Episode
from placerl.harness.runtime.compose import environment_seeds
from placerl.harness.runtime.on_policy_loop import OnPolicyLoop
from placerl.harness.runtime.resolve import Resolved
from placerl.primitives.learner import UnsupportedOperationError
from placerl.primitives.learner.device import started_steps
from placerl.primitives.training.resident_iterations import ResidentIterations


class ResidentOnPolicy(OnPolicyLoop):
    """On-policy training (PPO) whose iterations are graphs of a device, which the host starts and then waits for.

    A stretch of it has one term, "iteration": its parts run without the host, which could not tell them apart.

    Args:
        resolved: what is trained, and how (`resident.check`).

    Attributes:
        provenance: always "measured".

    Raises:
        UserError: a part cannot be created, such as samples that the device's memory does not hold.
    """

    provenance = Provenance.MEASURED

    def __init__(self, resolved: Resolved, *, seed: int = 0) -> None:
        super().__init__(resolved, seed)
        mapping, device = resolved.mapping, started_steps.check(self.learner).device
        if not device.has_double:
            raise UserError(mapping, "learner", device.name, "a device with double precision")
        try:
            self._iterations = ResidentIterations(
                self.learner,
                resolved.workload.environment.id,
                environment_seeds(self._environment_seed, self._actors),
                seed=int(self._exploration_seed.generate_state(1, np.uint64)[0]),
            )
        except (MemoryError, UnsupportedOperationError) as error:
            raise UserError(mapping, "loop", str(error), "what its device can train in iterations") from error
        self._spent_s = 0.0

    @property
    def environment_steps(self) -> int:
        """Return the number of environment steps taken so far, over all environments."""
        return self._iterations.environment_steps

    def close(self) -> None:
        """Do nothing: memory is freed with the object."""

    def _iterate(self, iterations: int) -> None:
        begun_s = perf_counter()
        self._iterations.run(iterations)
        self._iterations.drain()
        self._spent_s += perf_counter() - begun_s
        self.gradient_steps += iterations * self._gradient_steps_each

    def _take_episodes(self) -> list[Episode]:
        return [Episode(step, total) for step, total in self._iterations.take_episodes()]

    def _terms_s(self) -> dict[str, float]:
        return {"iteration": self._spent_s}

    def _losses(self) -> dict[str, float]:
        return self._iterations.losses
