"""The host's side of dynamic re-allocation: measures an iteration's times and applies `reallocate` to a run."""

from harness.core.errors import UserError
from harness.mapping import Mapping
from harness.runtime.actors.pool import ActorPool
from harness.runtime.learners.parallel_updates import ParallelLearner
from harness.runtime.reallocation import Allocation, Times, reallocate
from primitives.learner import Learner


def check_learners(mapping: Mapping, learners: int, processes: int, overlap: int, reallocate: bool) -> None:
    """See that a mapping's learner can be split as it is asked for.

    Raises:
        UserError: it cannot, or there is no actor to free.
    """
    if learners < 1:
        raise UserError(mapping, "learners", learners, "at least 1")
    if (learners > 1 or reallocate) and str(mapping.learner) != "torch":
        allowed = "torch: parallel learners and re-allocation split its batches"
        raise UserError(mapping, "learner", mapping.learner, allowed)
    if learners > 1 and reallocate:
        raise UserError(mapping, "learners", learners, "1 with re-allocation, which splits batches itself")
    if reallocate and (processes < 2 or not overlap):
        found = f"{processes} actor processes, overlap {overlap}"
        raise UserError(mapping, "reallocate", found, "at least 2 actor processes, and an overlap")


def parallel_learner(made: Learner, processes: int) -> ParallelLearner:
    """A learner like the one made, with a trainer for every actor that may be freed."""
    return ParallelLearner(made.algorithm, batch_size=made.batch_size, trainers=processes - 1, seed=made.seed)


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
