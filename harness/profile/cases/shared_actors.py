"""Provides an actor in a process that several timed trainings use in turn.

The trainings are those with actors that run in parallel with the learner. A process of its own for each of them would
take seconds to start, and 200 MB. They take turns, so the process always works for one of them.
"""

import numpy as np

from placerl.harness.mapping import Problem
from placerl.harness.pieces.learners import LATE
from placerl.harness.runtime.actors.actor import Episode
from placerl.harness.runtime.actors.in_process import Actors, Transitions
from placerl.harness.runtime.actors.pool import ActorPool
from placerl.harness.runtime.compose import actors_of
from placerl.harness.runtime.units.unit import STALL_LIMIT_S
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import columns_of
from placerl.primitives.learner import Learner

FEWEST_STEPS = 256
"""Vector steps that the actor has room for, at least: the check of a case and the warm-up ask for some."""


def late_pool(workload: Workload, problem: Problem, learner: Learner) -> ActorPool:
    """Return a pool with one actor in a process of its own, whose exploration rate already has its final value.

    Args:
        learner: the learner whose weights it uses first.
    """
    environment_seed, exploration_seed = np.random.SeedSequence(0).spawn(2)
    room = max(FEWEST_STEPS, problem.overlapped_rounds() * problem.round_vector_steps)
    plan = actors_of(
        workload, environment_seed, exploration_seed, columns_of(workload), room, environment_steps=LATE
    )
    return ActorPool(plan, learner, 1)


class BorrowedActors(Actors):
    """The actors of a pool of processes, as one of several learners uses them in turn.

    Args:
        pool: the actors in other processes; the owner of the pool closes it.
        learner: the learner whose weights are used; its policy is that of the pool's other learners.
    """

    def __init__(self, pool: ActorPool, learner: Learner) -> None:
        self._pool, self._learner = pool, learner

    @property
    def environment_steps(self) -> int:  # type: ignore[override]
        """Return the number of environment steps taken so far, for all learners."""
        return self._pool.environment_steps

    @property
    def environment_s(self) -> float:  # type: ignore[override]
        """Return the seconds spent so far in environments, for all learners."""
        return self._pool.environment_s

    @property
    def inference_s(self) -> float:  # type: ignore[override]
        """Return the seconds spent so far in choosing actions, for all learners."""
        return self._pool.inference_s

    def submit(self, steps: int, explore: bool = True) -> None:
        """Request `steps` vector steps, each of which steps every environment once, with this learner's weights.

        The weights are first handed over if another learner used the actors last.

        Args:
            explore: whether the policy chooses the actions; otherwise they are random.
        """
        if self._pool.learner is not self._learner:
            self._pool.follow(self._learner)
        self._pool.submit(steps, explore)

    def result(self, limit_s: float = STALL_LIMIT_S) -> Transitions:
        """Return the transitions of the last request; see `Actors.result`.

        Args:
            limit_s: seconds to wait; UnitError is raised after them.
        """
        return self._pool.result(limit_s)

    def publish(self) -> None:
        """Make the next requests use this learner's current weights."""
        self._pool.follow(self._learner)

    def take_episodes(self) -> list[Episode]:
        """Return the episodes that ended since the last call, for all learners, oldest first."""
        return self._pool.take_episodes()

    def close(self) -> None:
        """Do nothing: the pool's owner closes it."""
