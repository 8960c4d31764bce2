"""Returns the algorithm of a task, which is a workload or a user's own task, and the columns of its transitions."""

import math
from dataclasses import replace

import numpy as np
import torch

from placerl.harness.workloads.custom_task import CustomTask
from placerl.harness.workloads.schema import Workload
from placerl.primitives import algorithms
from placerl.primitives.algorithms import Algorithm
from placerl.primitives.replay import FieldSpec
from placerl.primitives.replay.storage import transition_fields

Task = Workload | CustomTask
"""A task that can be trained: a workload from a file, or a user's own task."""


def resized(task: Task, batch_size: int) -> Task:
    """Return a task with another batch size; unlike `workloads.with_batch_size` it changes and checks nothing else."""
    training = task.training.model_copy(update={"batch_size": batch_size})
    if isinstance(task, CustomTask):
        return replace(task, training=training)
    return task.model_copy(update={"training": training})


def algorithm_of(
    workload: Task, dtype: torch.dtype = torch.float32, *, evaluating: bool = False
) -> Algorithm:
    """Return the algorithm of a task, created for the shapes of the task's environment.

    Args:
        dtype: data type of parameters and batches; a user's own algorithm (`CustomTask`) keeps its own.
        evaluating: whether actors also compute TD errors (`Algorithm.evaluating`); not read for a user's own algorithm.
    """
    if isinstance(workload, CustomTask):
        return workload.custom_algorithm
    algorithm = algorithms.create(
        workload.algorithm.name,
        observation_shape=workload.environment.observation_shape,
        action_size=workload.environment.action_size,
        network=workload.network.model_dump(),
        hyperparameters=workload.algorithm.hyperparameters,
        action_kind=workload.environment.action_kind,
        dtype=dtype,
    )
    return replace(algorithm, evaluating=True) if evaluating else algorithm


def columns_of(workload: Task) -> dict[str, FieldSpec]:
    """Return the shape and dtype of each column of a task's transitions, by name, to create the replay's storage.

    Observations are float32, but the frames of a workload (observations of more than one dimension) are uint8.
    """
    if isinstance(workload, CustomTask):
        return workload.columns()
    environment = workload.environment
    pixels = len(environment.observation_shape) > 1
    observation = FieldSpec(environment.observation_shape, np.uint8 if pixels else np.float32)
    discrete = environment.action_kind == "discrete"
    action = FieldSpec((), np.int64) if discrete else FieldSpec((environment.action_size,), np.float32)
    return transition_fields(observation, action)


def item_bytes(task: Task) -> int:
    """Return the bytes of a stored transition of a task."""
    return sum(math.prod(field.shape) * np.dtype(field.dtype).itemsize for field in columns_of(task).values())
