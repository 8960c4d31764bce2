"""An iteration of the training loop: the smallest unit with whole vector steps and whole gradient steps, or
several.
"""

from dataclasses import dataclass
from math import gcd

from harness.core.errors import UserError
from harness.workloads import TrainingTable as Settings
from harness.workloads.task import Task


@dataclass(frozen=True)
class Iteration:
    """The steps between two insertions.

    Attributes:
        vector_steps: steps of all actors together.
        gradient_steps: gradient steps that belong to them.
    """

    vector_steps: int
    gradient_steps: int

    @classmethod
    def of(cls, settings: Settings, overlap: int = 0) -> "Iteration":
        """Return the smallest iteration with at least `overlap` gradient steps."""
        common = gcd(settings.actors, settings.update_interval)
        rounds = max(1, -(-overlap * common // settings.actors))
        return cls(rounds * settings.update_interval // common, rounds * settings.actors // common)


def check_overlap(task: Task, overlap: int) -> None:
    """Raise UserError if an iteration collects more than the replay holds, because the rest would be evicted
    unused.
    """
    settings, one = task.training, Iteration.of(task.training)
    rounds = max(1, task.replay.capacity // (one.vector_steps * settings.actors))
    if overlap > (most := rounds * one.gradient_steps):
        allowed = f"0 to {most}: between two insertions, what replay.capacity, {task.replay.capacity}, holds"
        raise UserError(task.name, "overlap", overlap, allowed)


def collected_rows(task: Task, overlap: int, reallocate: bool) -> int:
    """Return the transitions that the actors' local storages hold; a single active actor may step for all."""
    actors = task.training.actors
    return Iteration.of(task.training, overlap).vector_steps * actors * (actors if reallocate else 1)
