"""The iteration of the training loop: vector steps of the actors, then the gradient steps that belong to them.

It is the smallest unit in which both numbers are whole, or a multiple of that unit.
"""

from dataclasses import dataclass
from math import gcd

from placerl.harness.core.errors import UserError
from placerl.harness.workloads import TrainingTable as Settings
from placerl.harness.workloads.task import Task


@dataclass(frozen=True)
class Iteration:
    """The steps of one iteration, between two insertions into the replay.

    Attributes:
        vector_steps: vector steps; each steps all environments once.
        gradient_steps: gradient steps that belong to them.
    """

    vector_steps: int
    gradient_steps: int

    @classmethod
    def of(cls, settings: Settings, overlap: int = 0) -> "Iteration":
        """Return the smallest iteration with whole vector steps and at least `overlap` gradient steps.

        Args:
            settings: give the number of actors, and the environment steps per gradient step.
            overlap: least number of gradient steps.
        """
        common = gcd(settings.actors, settings.update_interval)
        rounds = max(1, -(-overlap * common // settings.actors))
        return cls(rounds * settings.update_interval // common, rounds * settings.actors // common)


def check_insertion(task: Task) -> None:
    """Check that the replay holds all transitions of the smallest iteration, which are inserted at once.

    Raises:
        UserError: it holds fewer.
    """
    rows = task.training.rows_of_an_iteration
    if task.replay.capacity < rows:
        why = "the transitions between two insertions (training.actors, training.update_interval)"
        raise UserError(task.name, "replay.capacity", task.replay.capacity, f"at least {rows}: {why}")


def check_overlap(task: Task, overlap: int) -> None:
    """Check that the replay holds all transitions that one iteration collects.

    Otherwise the oldest of these transitions would be evicted before they were ever sampled.

    Args:
        overlap: requested gradient steps per iteration.

    Raises:
        UserError: the iteration collects more than the replay holds.
    """
    settings, one = task.training, Iteration.of(task.training)
    rounds = max(1, task.replay.capacity // (one.vector_steps * settings.actors))
    most = rounds * one.gradient_steps
    if not 0 <= overlap <= most:
        allowed = f"0 to {most}: between two insertions, what replay.capacity, {task.replay.capacity}, holds"
        raise UserError(task.name, "overlap", overlap, allowed)


def collected_rows(task: Task, overlap: int, reallocate: bool) -> int:
    """Return how many transitions the actors' local storages must hold together for one iteration.

    Args:
        task: gives the number of actors, and the environment steps per gradient step.
        overlap: least number of gradient steps in an iteration.
        reallocate: whether actors may pause. More rows are then needed, because a single active actor may have to
            step for all of them.
    """
    actors = task.training.actors
    return Iteration.of(task.training, overlap).vector_steps * actors * (actors if reallocate else 1)
