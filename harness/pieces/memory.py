"""Computes the memory that a learner and a run need, and refuses those that do not fit before anything is built.

The estimate of a learner is never below the arrays that it holds, and close to the peak of its process: measured
with 1 to 12 million parameters, that was 5 to 6 numbers for each parameter on PyTorch, and 16 to 25 on the graph
backends, whose kinds of gradient step have memory of their own. Of Pong's network on native, 128 samples took 0.43 GB;
the estimate is 0.57 GB.
"""

import math
from dataclasses import dataclass

from placerl.harness.core.errors import UserError
from placerl.harness.platforms.available_memory import NotEnoughMemory, available_bytes
from placerl.harness.workloads.custom_task import CustomTask
from placerl.harness.workloads.task import Task, algorithm_of, item_bytes
from placerl.primitives.algorithms import tree
from placerl.primitives.algorithms.custom import CustomAlgorithm
from placerl.primitives.algorithms.networks import parameter_count

WORD_BYTES = 4
PROCESS_BYTES = 250 * 2**20
"""Memory assumed for one actor process with PyTorch and MuJoCo. Two processes on Hopper-v5 each had 197 MiB of their
own, and 229 MiB with their share of common pages; rounded up.
"""


@dataclass(frozen=True)
class LearnerWords:
    """Numbers of 4 bytes that a learner holds at its peak.

    Attributes:
        a_parameter: for each parameter: with its moments, target, gradient and temporary values.
        an_output: for each unit of each network and each sample: forward and backward.
        a_patch: for each input of each unit of a convolution and each sample.
    """

    a_parameter: int
    an_output: int
    a_patch: int


TORCH = LearnerWords(a_parameter=7, an_output=6, a_patch=0)
GRAPH = LearnerWords(a_parameter=27, an_output=8, a_patch=1)
"""Of the backends that run step graphs: native, reference, opencl, cuda and fpga."""


def learner_bytes(task: Task, batch_size: int, backend: str = "torch") -> int:
    """Return an upper estimate of the bytes that a learner holds, without building it.

    Args:
        task: gives the algorithm and its networks. Of a user's own algorithm only the state is known.
        backend: the learner's backend; the default needs least.
    """
    words, algorithm = TORCH if backend == "torch" else GRAPH, algorithm_of(task)
    parameters = sum(map(parameter_count, algorithm.networks.values()))
    if isinstance(algorithm, CustomAlgorithm):  # usually parameters and two moments
        parameters = -(-sum(leaf.numel() for leaf in tree.flatten(algorithm.state).values()) // 3)
    layers = [layer for network in algorithm.networks.values() for layer in network.layers]
    units = sum(layer.weight_shape[0] * layer.positions for layer in layers)
    patches = sum(layer.fan_in * layer.positions for layer in layers if layer.kind == "convolution")
    rows = sum(math.prod(column.shape) for column in algorithm.columns(batch_size).values())
    a_sample = words.an_output * units + words.a_patch * patches
    return WORD_BYTES * (words.a_parameter * parameters + batch_size * a_sample + words.an_output * rows)


def check_learner(task: Task, batch_size: int, backend: str = "torch") -> None:
    """Check that there is enough free memory for a task's learner, before anything of it is built.

    Args:
        backend: the learner's backend; the default needs least.

    Raises:
        UserError: there is not enough; the message names what can be reduced.
    """
    free_bytes = available_bytes()
    needed_bytes = learner_bytes(task, batch_size, backend)
    if needed_bytes <= free_bytes:
        return
    allowed = (
        f"what fits {free_bytes / 1e9:.1f} GB of free memory; its learner needs {needed_bytes / 1e9:.1f} GB"
    )
    if learner_bytes(task, 1, backend) <= free_bytes:
        raise UserError(task.name, "batch_size", batch_size, f"{allowed}; choose a smaller batch")
    if isinstance(task, CustomTask):
        raise UserError(task.name, "state", "too many numbers", f"{allowed}; choose fewer parameters")
    if task.network.kind != "mlp":
        raise UserError(task.name, "network.kind", task.network.kind, allowed)
    allowed = f"{allowed}; choose smaller layers"
    raise UserError(task.name, "network.hidden", list(task.network.hidden), allowed)


def require_learner(task: Task, batch_size: int, backend: str) -> None:
    """Raise `NotEnoughMemory` where `check_learner` refuses: a measurement is then not run, for this reason."""
    try:
        check_learner(task, batch_size, backend)
    except UserError as error:
        raise NotEnoughMemory(str(error)) from error


def transitions_bytes(task: Task, ahead: int, collected_rows: int = 0) -> int:
    """Return the bytes of the transitions that a run holds: in its replay, in its batches and with its actors.

    Args:
        ahead: D, the number of batches sampled ahead.
        collected_rows: transitions that the actors hold in addition to the replay.
    """
    rows = task.replay.capacity + task.training.batch_size * (ahead + 1) + collected_rows
    return rows * item_bytes(task)


def check_run(task: Task, ahead: int, processes: int, learners: int = 1, collected_rows: int = 0) -> None:
    """Check that there is enough free memory for a run's transitions and its other processes.

    Args:
        ahead: D, the number of batches sampled ahead.
        processes: number of actor processes.
        learners: number of learner processes, including this one.
        collected_rows: transitions that the actors hold in addition to the replay.

    Raises:
        UserError: there is not enough; the message names what can be reduced.
    """
    free_bytes = available_bytes()
    storage_bytes = transitions_bytes(task, ahead, collected_rows)
    for field, size, bytes_ in (
        ("replay.capacity", task.replay.capacity, transitions_bytes(task, ahead)),
        ("transitions between two insertions", collected_rows, storage_bytes),
    ):
        if bytes_ > free_bytes:
            allowed = f"what fits {free_bytes / 1e9:.1f} GB of free memory; it needs {bytes_ / 1e9:.1f} GB"
            raise UserError(task.name, field, size, allowed)
    left_bytes = free_bytes - storage_bytes
    most, others = left_bytes // PROCESS_BYTES, learners - 1
    allowed = f"for {left_bytes / 1e9:.1f} GB of memory are left"
    if others > most:
        raise UserError(task.name, "learners", learners, f"at most {most + 1}, {allowed}")
    if others + processes > most:
        raise UserError(task.name, "actor processes", processes, f"at most {most - others}, {allowed}")
