"""An iteration of the training loop: the least that has whole vector steps and whole gradient steps, or several."""

from dataclasses import dataclass
from math import gcd

from harness.core.errors import UserError
from harness.workloads import Training as Settings
from harness.workloads.task import Task


@dataclass(frozen=True)
class Iteration:
    """What is done between two insertions.

    Attributes:
        vector_steps: of all actors together, each.
        gradient_steps: that belong to them.
    """

    vector_steps: int
    gradient_steps: int

    @classmethod
    def of(cls, settings: Settings, overlap: int = 0) -> "Iteration":
        """The smallest with at least `overlap` gradient steps."""
        common = gcd(settings.actors, settings.update_interval)
        rounds = max(1, -(-overlap * common // settings.actors))
        return cls(rounds * settings.update_interval // common, rounds * settings.actors // common)


def check_overlap(task: Task, overlap: int) -> None:
    """UserError where an iteration collects more than the replay holds: the rest would be evicted unseen."""
    settings, one = task.training, Iteration.of(task.training)
    rounds = max(1, task.replay.capacity // (one.vector_steps * settings.actors))
    if overlap > (most := rounds * one.gradient_steps):
        allowed = f"0 to {most}: between two insertions, what replay.capacity, {task.replay.capacity}, holds"
        raise UserError(task.name, "overlap", overlap, allowed)


def collected_rows(task: Task, overlap: int, reallocate: bool) -> int:
    """Transitions that the actors have room for beside the replay; a single active actor steps for all."""
    actors = task.training.actors
    return Iteration.of(task.training, overlap).vector_steps * actors * (actors if reallocate else 1)
