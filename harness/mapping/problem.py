"""What a mapping strategy must know of a workload."""

from functools import lru_cache
from math import prod

import numpy as np
import torch

from harness.mapping.base import Problem
from harness.workloads import Workload
from harness.workloads.task import algorithm_of, columns_of
from primitives.algorithms import Algorithm


def problem_of(workload: Workload, batch_size: int) -> Problem:
    """What a strategy must know of a workload."""
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
        stored_bytes=_stored_bytes(workload),
    )


def _stored_bytes(workload: Workload) -> int:
    """Of a transition in the storage; on-policy, of a sample as the learner takes it."""
    if workload.algorithm.name == "ppo":
        columns = algorithm_of(workload).columns(1).values()
        return sum(prod(shape) * dtype.itemsize for shape, dtype in columns)
    return sum(prod(one.shape) * np.dtype(one.dtype).itemsize for one in columns_of(workload).values())


@lru_cache(maxsize=64)  # a state is made to be counted: of millions of words where there are frames
def _acting_words(algorithm: Algorithm) -> int:
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    return sum(value.numel() for value in algorithm.acting_parameters(state).values())
