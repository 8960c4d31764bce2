"""What a run needs of the machine's memory, refused before anything starts where it is not there."""

import math

import numpy as np
import psutil

from harness.errors import UserError
from harness.runtime.compose import Task, columns_of

PROCESS_BYTES = 250 * 2**20
"""An actor's process with PyTorch and MuJoCo: on Hopper-v5, with two of them, 197 MiB of its own were measured, and
229 MiB with its share of what they have in common; rounded up."""


def needed_bytes(task: Task, batch_size: int, presampled_batches: int, processes: int) -> int:
    """Bytes of the data storage, the batches that wait for their gradient step, and the actors' processes."""
    item_bytes = sum(
        math.prod(field.shape) * np.dtype(field.dtype).itemsize for field in columns_of(task).values()
    )
    items = task.replay.capacity + batch_size * (presampled_batches + 1)
    return items * item_bytes + processes * PROCESS_BYTES


def check(task: Task, batch_size: int, presampled_batches: int, processes: int) -> None:
    """See that the memory is there.

    Raises:
        UserError: it is not; names what can be made smaller.
    """
    free_bytes = psutil.virtual_memory().available
    storage_bytes = needed_bytes(task, batch_size, presampled_batches, 0)
    if storage_bytes > free_bytes:
        allowed = f"what fits {free_bytes / 1e9:.1f} GB of free memory; it needs {storage_bytes / 1e9:.1f} GB"
        raise UserError(task.name, "replay.capacity", task.replay.capacity, allowed)
    if needed_bytes(task, batch_size, presampled_batches, processes) > free_bytes:
        most = (free_bytes - storage_bytes) // PROCESS_BYTES
        allowed = f"at most {most}, for {(free_bytes - storage_bytes) / 1e9:.1f} GB of memory are left"
        raise UserError(task.name, "actor processes", processes, allowed)
