"""Computes the memory that a run needs. A run that needs more than is available is refused before anything starts."""

from placerl.harness.core.errors import UserError
from placerl.harness.platforms.available_memory import available_bytes
from placerl.harness.workloads.task import Task, item_bytes

PROCESS_BYTES = 250 * 2**20
"""Memory assumed for one actor process with PyTorch and MuJoCo. Two processes on Hopper-v5 each had 197 MiB of their
own, and 229 MiB with their share of common pages; rounded up.
"""


def needed_bytes(
    task: Task, batch_size: int, presampled_batches: int, processes: int, collected_rows: int = 0
) -> int:
    """Return the bytes that a run needs for its transitions and its other processes.

    Args:
        task: gives the replay's capacity and the size of a transition.
        batch_size, presampled_batches: size of a batch, and D, the number of batches sampled ahead.
        processes: number of other processes.
        collected_rows: transitions that the actors hold in addition to the replay.
    """
    items = task.replay.capacity + batch_size * (presampled_batches + 1) + collected_rows
    return items * item_bytes(task) + processes * PROCESS_BYTES


def check(
    task: Task,
    batch_size: int,
    presampled_batches: int,
    processes: int,
    learners: int = 1,
    collected_rows: int = 0,
) -> None:
    """Check that there is enough free memory for a run.

    Args:
        batch_size, presampled_batches: size of a batch, and D, the number of batches sampled ahead.
        processes: number of actor processes.
        learners: number of learner processes, including this one.
        collected_rows: transitions that the actors hold in addition to the replay.

    Raises:
        UserError: there is not enough; the message names what can be reduced.
    """
    free_bytes = available_bytes()
    stored_bytes = needed_bytes(task, batch_size, presampled_batches, 0)
    storage_bytes = needed_bytes(task, batch_size, presampled_batches, 0, collected_rows)
    for field, size, bytes_ in (
        ("replay.capacity", task.replay.capacity, stored_bytes),
        ("transitions between two insertions", collected_rows, storage_bytes),
    ):
        if bytes_ > free_bytes:
            allowed = f"what fits {free_bytes / 1e9:.1f} GB of free memory; it needs {bytes_ / 1e9:.1f} GB"
            raise UserError(task.name, field, size, allowed)
    others = learners - 1
    if storage_bytes + (processes + others) * PROCESS_BYTES > free_bytes:
        left_bytes = free_bytes - storage_bytes
        most = left_bytes // PROCESS_BYTES
        allowed = f"for {left_bytes / 1e9:.1f} GB of memory are left"
        if others > most:
            raise UserError(task.name, "learners", learners, f"at most {most + 1}, {allowed}")
        raise UserError(task.name, "actor processes", processes, f"at most {most - others}, {allowed}")
