"""A state of real training, and samples to learn from: the time of a step may depend on the numbers in them.

In training, moments of Adam and activations of units that no longer fire sink towards zero, below the smallest
normal number; on random batches they never do. So learners are timed from a trained state, and once more from a
fresh one.
"""

import json
from functools import cache
from math import inf
from time import perf_counter

import numpy as np

from placerl.harness import workloads
from placerl.harness.loop.schedule import STRICT
from placerl.harness.mapping import Mapping
from placerl.harness.pieces.base import block_rows
from placerl.harness.pieces.learners import TrainedStart
from placerl.harness.runtime.measured_run import start
from placerl.harness.runtime.on_policy import OnPolicyTraining
from placerl.harness.runtime.resolve import resolve
from placerl.harness.runtime.training import Training
from placerl.harness.workloads import Workload

MAPPING = Mapping.parse("torch-native-cpu")
"""The mapping of the training from which timed learners continue.

PyTorch keeps subnormal numbers, so the state contains them for learners that keep them too; the native learner reads
them as zero.
"""
STEPS, LIMIT_S = 1000, 10.0
"""Gradient steps of the training from which a profile's learners continue, and the seconds after which it ends."""
FILL, CAPACITY = 2000, 4096
"""Most environment steps before the first gradient step of that training, and most transitions in its replay.

That training is the one from which timed learners continue.
"""
ROWS = 4096
"""Most transitions that such a training returns, to draw batches from."""
_CHUNK = 50


def train(
    workload: Workload, steps: int, batch_size: int | None = None, limit_s: float = inf
) -> TrainedStart:
    """Train a workload with PyTorch's learner and the native replay, and return its state and samples.

    Args:
        batch_size: transitions in a batch; None for the workload's own number.
        limit_s: seconds after which no further steps are taken.
    """
    training = start(resolve(STRICT, workload, MAPPING, batch_size))
    assert isinstance(training, Training | OnPolicyTraining), "the default options fuse no iterations"
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
    """Return the trained state from which a workload's profile times learners.

    The training takes `STEPS` gradient steps with the workload's own batch size, or as many as `LIMIT_S` seconds
    allow. It runs once per process, with a small replay, whatever the size of the workload's own.
    """
    if workload.algorithm.name != "ppo":
        needed = max(workload.training.rows_of_batches, workload.training.rows_of_an_iteration)
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
