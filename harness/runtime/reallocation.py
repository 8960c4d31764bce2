"""Dynamic re-allocation of actor threads to training and back (PRL 3.3.1, Algorithm 1).

A trainer is a thread that differentiates a part of each batch for the learner, which runs on the CPU or on an
accelerator. The text of Algorithm 1 in the
available copy lacks its first lines and its comparisons; they are reconstructed from the sentences of section 3.3.1.
One step of the host's loop checks which of four times is the longest:

| longest | what is done |
|---|---|
| the learner, more than twice the actors | half of the actors become trainers, each with some of the batch |
| the learner, with trainers | more of the batch goes to the trainers |
| the trainers | less of the batch goes to them |
| waiting for gradients to be put together | one trainer becomes an actor again |
| the actors | nothing; without this, actors would be freed that are needed |
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from placerl.harness.mapping import Mapping
from placerl.harness.mapping.base import Platform
from placerl.harness.runtime.actors.pool import ActorPool
from placerl.harness.runtime.clock import simulated_s
from placerl.harness.runtime.learners.accelerated import AcceleratedLearner, SimulatedAcceleratedLearner
from placerl.harness.runtime.learners.gradient_graphs import BACKENDS
from placerl.harness.runtime.learners.parallel_updates import ParallelLearner
from placerl.primitives.learner import Learner

IMBALANCE = 2.0
"""Ratio of the learner's time to the actors' above which actors are freed (Algorithm 1, line 3)."""


@dataclass(frozen=True)
class Allocation:
    """How threads and samples are divided between acting and training in the next iteration.

    Attributes:
        actors: number of threads or processes that step environments, at least 1.
        trainers: number of trainers, threads that take parts of each batch from the learner.
        batch_size: samples per gradient step.
        trained_beside: samples of each batch that all trainers take together; 0 without trainers.
    """

    actors: int
    trainers: int
    batch_size: int
    trained_beside: int = 0

    @property
    def parts(self) -> tuple[int, ...]:
        """Return the number of samples of a batch for the learner, then for each trainer that gets some.

        The numbers sum up to the batch size.
        """
        if not self.trained_beside:
            return (self.batch_size,)
        each, more = divmod(self.trained_beside, self.trainers)
        sizes = [each + (number < more) for number in range(self.trainers)]
        return self.batch_size - self.trained_beside, *(size for size in sizes if size)


@dataclass(frozen=True)
class Times:
    """Seconds that each group of threads worked in one iteration.

    Attributes:
        learner: the learner's seconds on its part of the batches.
        trainers: seconds of the slowest trainer on its parts; 0 without trainers.
        actors: seconds of the slowest actor.
        synchronisation: the host's seconds for averaging the gradients.
    """

    learner: float
    trainers: float
    actors: float
    synchronisation: float


def reallocate(now: Allocation, times: Times) -> Allocation:
    """Return the allocation after one step of Algorithm 1; the module's docstring lists its rules.

    A sixteenth of the batch is moved at a time: the smallest step that also changes the times of a small batch.

    Args:
        now: the current allocation.
        times: the times of the iteration that has just ended.
    """
    share = max(1, now.batch_size // 16)
    longest = max(times.learner, times.trainers, times.actors, times.synchronisation)
    if longest == times.learner:
        if not now.trainers:
            freed = now.actors // 2
            if not freed or times.learner <= IMBALANCE * times.actors:
                return now
            now = replace(now, actors=now.actors - freed, trainers=freed)
            share *= freed
        more = min(now.trained_beside + share, now.batch_size - now.batch_size // 16 - 1)
        return replace(now, trained_beside=max(more, now.trained_beside))
    if longest == times.trainers and now.trainers:
        return replace(now, trained_beside=max(now.trained_beside - share, min(share, now.trained_beside)))
    if longest == times.synchronisation and now.trainers:
        fewer = now.trainers - 1
        beside = now.trained_beside * fewer // now.trainers
        return replace(now, actors=now.actors + 1, trainers=fewer, trained_beside=beside)
    return now


def parallel_learner(
    existing: Learner, processes: int, mapping: Mapping, platform: Callable[[], Platform]
) -> ParallelLearner:
    """Return a new learner with the algorithm, batch size and seed of `existing`.

    It has `processes` - 1 trainers (threads that differentiate a part of each batch), one for each actor that may be
    moved to training.

    Args:
        existing: the existing learner.
        processes: number of actor processes.
        mapping: backend and device of the learner.
        platform: returns the platform that states the links to a simulated device.
    """
    settings: dict[str, Any] = {
        "batch_size": existing.batch_size,
        "trainers": processes - 1,
        "seed": existing.seed,
    }
    target = mapping.learner
    if target.backend not in BACKENDS:
        return ParallelLearner(existing.algorithm, **settings)
    accelerator = existing.algorithm, target.backend, target.location or None
    if simulated_s(existing) is None:
        return AcceleratedLearner(*accelerator, **settings)
    links = platform()

    def links_s(sent_bytes: int, returned_bytes: int) -> float:
        ends = (("cpu", target.device, sent_bytes), (target.device, "cpu", returned_bytes))
        return sum(
            links.latency_s(source, end) + size / links.bytes_per_s(source, end) for source, end, size in ends
        )

    return SimulatedAcceleratedLearner(*accelerator, **settings, links_s=links_s)


class Reallocator:
    """Re-allocates threads between acting and training after every iteration.

    Args:
        learner: the learner whose batches are divided.
        pool: the actors, some of which pause while trainers work in their place.

    Attributes:
        allocation: allocation of the next iteration.
    """

    def __init__(self, learner: ParallelLearner, pool: ActorPool) -> None:
        self._learner, self._pool = learner, pool
        self.allocation = Allocation(pool.active, 0, learner.batch_size)
        self._fixed = False
        self._before = self._spent()

    def _spent(self) -> tuple[float, ...]:
        updates, pool = self._learner.updates, self._pool
        acting_s = pool.environment_s + pool.inference_s
        return updates.learner_s, updates.trainers_s, acting_s, updates.synchronisation_s

    def step(self) -> None:
        """Choose the next allocation from the times of the iteration that has just ended, and apply it."""
        spent = self._spent()
        times = Times(*(now - before for now, before in zip(spent, self._before, strict=True)))
        self._before = spent
        if not self._fixed:
            self._apply(reallocate(self.allocation, times))

    def fix(self, allocation: Allocation) -> None:
        """Apply an allocation, and keep it from now on."""
        self._fixed = True
        self._apply(allocation)

    def _apply(self, allocation: Allocation) -> None:
        self.allocation = allocation
        self._learner.updates.parts = allocation.parts
        self._pool.active = allocation.actors
