"""Trainings in one call: what `resolve` decides, and the class that trains it."""

from typing import Any

from placerl.harness.loop.schedule import STRICT, Fusion, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime.measured_run import start
from placerl.harness.runtime.on_policy import OnPolicyTraining
from placerl.harness.runtime.resolve import Resolved, resolve
from placerl.harness.runtime.training import Training
from placerl.harness.workloads.task import Task


def started(
    task: Task,
    mapping: Mapping,
    *,
    batch_size: int | None = None,
    seed: int = 0,
    schedule: Schedule = STRICT,
) -> Any:
    """The training that a task needs."""
    return start(resolve(schedule, task, mapping, batch_size), seed)


def replay_training(
    task: Task,
    mapping: Mapping,
    *,
    batch_size: int | None = None,
    seed: int = 0,
    schedule: Schedule = STRICT,
    existing: Fusion | None = None,
    **own: Any,
) -> Training:
    """A training with a replay, of given parts, whose fusion is given, or of those that the mapping names."""
    resolved = resolve(schedule, task, mapping, batch_size, existing=existing)
    return Training(resolved, seed=seed, **own)


def on_policy_training(
    task: Task,
    mapping: Mapping,
    *,
    batch_size: int | None = None,
    seed: int = 0,
    schedule: Schedule = STRICT,
    learner: Any = None,
    **own: Any,
) -> OnPolicyTraining:
    """An on-policy training, of a given learner or of the mapping's."""
    existing = Fusion.NONE if learner else None
    resolved = resolve(schedule, task, mapping, batch_size, existing=existing)
    return OnPolicyTraining(resolved, seed=seed, learner=learner, **own)


def resolved(task: Task, mapping: Mapping, batch_size: int | None = None, **options: Any) -> Resolved:
    """How a task is trained with these options."""
    return resolve(Schedule(**options), task, mapping, batch_size)
