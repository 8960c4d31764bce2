"""A state from real training, and what it learns from: a step's time may depend on the numbers that it meets.

In training, moments of Adam and activations of units that no longer fire sink towards zero, below the smallest
normal number; on random batches they never do. So learners are timed on a trained state, and once more on a fresh one.
"""

import json
from dataclasses import dataclass
from functools import cache
from math import inf
from time import perf_counter

import numpy as np
import numpy.typing as npt

from harness import workloads
from harness.mapping import Mapping
from harness.profile.cases.base import block_rows
from harness.runtime.on_policy import OnPolicyTraining, start
from harness.workloads import Workload

MAPPING = Mapping.parse("torch-native-cpu")
"""PyTorch keeps subnormal numbers, so that the state holds all that a learner which keeps them too would meet; the
native learner reads them as zero.
"""
STEPS, LIMIT_S = 1000, 10.0
"""Gradient steps of the training that a profile times learners after; the seconds after which it is not continued.
"""
FILL, CAPACITY = 2000, 4096
"""Most environment steps before the first gradient step of that training, and most transitions that it keeps."""
ROWS = 4096
"""Most transitions that are kept for batches."""
_CHUNK = 50


@dataclass(frozen=True)
class TrainedStart:
    """What learners continue from.

    Attributes:
        steps: gradient steps of the training.
        state: as `Learner.state_dict` returns it; it fits learners of every batch size and backend.
        columns: (n, ...) columns of samples of the replay; on-policy, those of the last iteration.
    """

    steps: int
    state: dict[str, npt.NDArray]
    columns: dict[str, npt.NDArray]

    def batch(self, size: int, rng: np.random.Generator) -> dict[str, npt.NDArray]:
        """Return `size` of the samples, drawn with replacement."""
        rows = rng.integers(0, len(next(iter(self.columns.values()))), size)
        return {name: column[rows] for name, column in self.columns.items()}


def train(
    workload: Workload, steps: int, batch_size: int | None = None, limit_s: float = inf
) -> TrainedStart:
    """Train a workload with PyTorch's learner and the native replay.

    Args:
        workload: the workload.
        steps: gradient steps, at least 1.
        batch_size: transitions in a batch; None for the workload's own number.
        limit_s: seconds after which no further steps are taken.
    """
    training = start(workload, MAPPING, batch_size=batch_size, seed=0)
    try:
        done = training.warm_up().gradient_steps
        begun_s = perf_counter()
        while done < steps and perf_counter() - begun_s < limit_s:
            done += training.advance(min(_CHUNK, steps - done)).gradient_steps
        state = training.learner.state_dict()
        if isinstance(training, OnPolicyTraining):
            return TrainedStart(done, state, training.samples())
        rows = min(ROWS, block_rows(training.replay.storage))
        columns = training.replay.sample(rows, np.random.default_rng(5)).batch
        return TrainedStart(done, state, {name: np.array(column) for name, column in columns.items()})
    finally:
        training.close()


def profiled_start(workload: Workload) -> TrainedStart:
    """Return the trained state of a workload's profile: `STEPS` steps of its own batch size, or those of `LIMIT_S`.

    Trained once per process, whatever the size of the replay.
    """
    if workload.algorithm.name != "ppo":
        needed = max(workload.training.batch_size, *workload.training.batch_sizes)
        for field, most in (
            ("training.learning_starts", max(FILL, needed)),
            ("replay.capacity", max(CAPACITY, needed)),
        ):
            table, _, name = field.partition(".")
            own = getattr(getattr(workload, table), name)
            workload = workloads.override(workload, field, min(own, most), "profile")
    return _trained_once(json.dumps(workload.tables()))


@cache
def _trained_once(tables: str) -> TrainedStart:
    return train(workloads.from_tables(json.loads(tables), "profile"), STEPS, limit_s=LIMIT_S)
