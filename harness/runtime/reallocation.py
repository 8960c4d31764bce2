"""Dynamic re-allocation of actor threads to training and back (PRL 3.3.1, Algorithm 1).

The text of Algorithm 1 has lost its first lines and its comparisons; what is here is rebuilt from section 3.3.1's
sentences. One step of the host's loop looks at which of four times is the longest:

| longest | what is done |
|---|---|
| the learner, more than twice the actors | half of the actors become trainers, each with some of the batch |
| the learner, beside trainers | more of the batch goes to the trainers |
| the trainers | less of the batch goes to them |
| waiting for gradients to be put together | one trainer becomes an actor again |
| the actors | nothing; without this, actors would be freed that are needed |
"""

from dataclasses import dataclass, replace

IMBALANCE = 2.0
"""How many times the actors' time the learner's must be before actors are freed (Algorithm 1, line 3)."""


@dataclass(frozen=True)
class Allocation:
    """Who does what in the next iteration.

    Attributes:
        actors: threads or processes that step environments, at least 1.
        trainers: that take parts of each batch off the learner.
        batch_size: samples of a gradient step.
        trained_beside: of those, the samples that the trainers take together; 0 without trainers.
    """

    actors: int
    trainers: int
    batch_size: int
    trained_beside: int = 0

    @property
    def parts(self) -> tuple[int, ...]:
        """The samples of the learner, then of each trainer that has some: their sum is the batch size."""
        if not self.trained_beside:
            return (self.batch_size,)
        each, more = divmod(self.trained_beside, self.trainers)
        sizes = [each + (number < more) for number in range(self.trainers)]
        return self.batch_size - self.trained_beside, *(size for size in sizes if size)


@dataclass(frozen=True)
class Times:
    """Seconds of an iteration, each unit's own.

    Attributes:
        learner: on its part of the batches.
        trainers: the slowest one's, on its parts; 0 without trainers.
        actors: the slowest one's.
        synchronisation: the host's, putting the gradients together.
    """

    learner: float
    trainers: float
    actors: float
    synchronisation: float


def reallocate(now: Allocation, times: Times) -> Allocation:
    """One step of Algorithm 1; see the module's text.

    The batch is moved a sixteenth at a time: the smallest step that shows in the times of a small batch, too.
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
