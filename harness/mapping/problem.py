"""Derives the properties of a workload that a mapping strategy needs, such as the size of a transition."""

from functools import lru_cache
from math import prod

import numpy as np
import torch

from harness.mapping.base import RELAXED_AHEAD, Problem
from harness.workloads import Workload
from harness.workloads.task import algorithm_of, columns_of
from primitives.algorithms import Algorithm

MOST_AHEAD_BYTES = 2**28
"""Most bytes of the batches that wait for the learner: an eighth of the memory that a process may take."""


def problem_of(workload: Workload, batch_size: int) -> Problem:
    """Return the properties of a workload that a mapping strategy needs, such as the size of a transition.

    Args:
        workload: the workload.
        batch_size: transitions per gradient step.
    """
    settings = workload.algorithm.hyperparameters
    on_policy = workload.algorithm.name == "ppo"
    return Problem(
        batch_size=batch_size,
        item_words=workload.item_words,
        actors=workload.training.actors,
        update_interval=workload.training.update_interval,
        trajectory_length=settings["trajectory_length"] if on_policy else 0,
        epochs=settings["epochs"] if on_policy else 1,
        acting_words=_acting_words(algorithm_of(workload)),
        stored_bytes=(stored_bytes := _stored_bytes(workload)),
        ahead=0 if on_policy else relaxed_ahead(workload.replay.capacity, batch_size, stored_bytes),
    )


def relaxed_ahead(capacity: int, batch_size: int, item_bytes: int) -> int:
    """Return D, the number of batches that the relaxed loop samples ahead of their gradient step.

    In this loop sampling runs in parallel with the learner.

    It is `RELAXED_AHEAD`, or fewer if the replay, or memory of `MOST_AHEAD_BYTES`, does not hold so many in addition
    to the batch that is being learnt.

    Args:
        capacity: items of the replay.
        batch_size: items of a batch.
        item_bytes: bytes of an item.
    """
    held = min(capacity // batch_size, MOST_AHEAD_BYTES // (batch_size * item_bytes))
    return max(0, min(RELAXED_AHEAD, held - 1))


def _stored_bytes(workload: Workload) -> int:
    """Return the bytes of a transition in the storage; on-policy, of a sample as the learner takes it."""
    if workload.algorithm.name == "ppo":
        columns = algorithm_of(workload).columns(1).values()
        return sum(prod(shape) * dtype.itemsize for shape, dtype in columns)
    return sum(prod(one.shape) * np.dtype(one.dtype).itemsize for one in columns_of(workload).values())


@lru_cache(maxsize=64)  # counting allocates a state, of millions of words for frames
def _acting_words(algorithm: Algorithm) -> int:
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    return sum(value.numel() for value in algorithm.acting_parameters(state).values())
