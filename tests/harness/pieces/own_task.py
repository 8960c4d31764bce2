"""A user's own task, whose pieces are timed as those of a workload."""

from placerl.harness.workloads import ReplayTable, TrainingTable
from placerl.harness.workloads.custom_task import CustomTask
from placerl.primitives.algorithms.custom import CustomAlgorithm
from tests.harness.runtime.test_program import FIRST, Sides, act, step

TASK = CustomTask(
    "mine",
    Sides,
    CustomAlgorithm((1,), 2, action_kind="discrete", state=FIRST, step=step, policy=act),
    ReplayTable(capacity=100),
    TrainingTable(batch_size=32, batch_sizes=(32,), learning_starts=32),
)
