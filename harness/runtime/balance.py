"""The host's side of dynamic re-allocation: measures an iteration's times and applies `reallocate` to a run."""

from dataclasses import replace

from harness.errors import UserError
from harness.mapping import Mapping
from harness.runtime.actor_pool import ActorPool
from harness.runtime.compose import Parts
from harness.runtime.parallel_updates import ParallelLearner
from harness.runtime.reallocation import Allocation, Times, reallocate


def parallel_parts(parts: Parts, mapping: Mapping, processes: int, overlap: int) -> Parts:
    """The parts of a training whose learner has a trainer for every actor that may be freed.

    Raises:
        UserError: the learner cannot be split, or there is no actor to free.
    """
    if str(mapping.learner) != "torch":
        raise UserError(mapping, "learner", mapping.learner, "torch, for re-allocation splits its batches")
    if processes < 2 or not overlap:
        found = f"{processes} actor processes, overlap {overlap}"
        raise UserError(mapping, "reallocate", found, "at least 2 actor processes, and an overlap")
    made = parts.learner
    learner = ParallelLearner(
        made.algorithm, batch_size=made.batch_size, trainers=processes - 1, seed=made.seed
    )
    return replace(parts, learner=learner)


class Balance:
    """Re-allocates after every iteration.

    Args:
        learner: whose batches are split.
        pool: whose actors are freed and taken back.

    Attributes:
        allocation: of the next iteration.
    """

    def __init__(self, learner: ParallelLearner, pool: ActorPool) -> None:
        self._learner, self._pool = learner, pool
        self.allocation = Allocation(pool.active, 0, learner.batch_size)
        self._before = self._spent()

    def _spent(self) -> tuple[float, ...]:
        updates, pool = self._learner.updates, self._pool
        acting_s = pool.environment_s + pool.inference_s
        return updates.learner_s, updates.trainers_s, acting_s, updates.synchronisation_s

    def step(self) -> None:
        """Look at the iteration that has just ended, and change what the next one needs."""
        spent = self._spent()
        times = Times(*(now - before for now, before in zip(spent, self._before, strict=True)))
        self._before = spent
        self.allocation = reallocate(self.allocation, times)
        self._learner.updates.parts = self.allocation.parts
        self._pool.active = self.allocation.actors
