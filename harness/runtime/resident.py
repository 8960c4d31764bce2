"""Checks what the resident loop cannot train: whole rounds or iterations as graphs of the learner's device."""

from placerl.harness.core.errors import OptionName, UserError
from placerl.harness.loop.schedule import STRICT, Environments, Loop, Schedule, is_on_policy
from placerl.harness.mapping.target import NATIVE, Mapping
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import Task, algorithm_of
from placerl.primitives.environments import device_environments
from placerl.primitives.quantization.precision import FLOAT_32
from placerl.primitives.training import exploration, on_policy

BACKENDS = ("opencl", "cuda")
"""Backends of learners whose kernels run on a device that has sum tree and storage, too."""
OPTIONS = ("actors", "environments", "presampled_batches", "fusion")
"""Options that may differ from their defaults."""
_WITH = (" with ", OptionName("loop"), f" {Loop.RESIDENT}")


def check(schedule: Schedule, task: Task, mapping: Mapping) -> None:
    """Check that whole rounds or iterations of a training can stay on the learner's device.

    Raises:
        UserError: an option, the algorithm, the environment or the mapping does not allow it; the first is reported.
    """
    for name, found in schedule.given().items():
        if name not in OPTIONS:
            raise UserError(task.name, name, found, (getattr(STRICT, name), *_WITH))
    if (stepping := schedule.environments) not in (None, Environments.DEVICE):
        raise UserError(task.name, "environments", stepping, (Environments.DEVICE, *_WITH))
    if not isinstance(task, Workload):
        raise UserError(task.name, "environment", "an environment of your own", _environments())
    if task.environment.kwargs:
        raise UserError(task.name, "environment.kwargs", task.environment.kwargs, ("none", *_WITH))
    if (id := task.environment.id) not in device_environments.ids():
        raise UserError(task.name, "environment.id", id, _environments())
    if is_on_policy(task):
        if reason := on_policy.refusal(algorithm_of(task)):
            raise UserError(task.name, "algorithm", reason, ("PPO of two networks", *_WITH))
    elif reason := exploration.refusal(algorithm_of(task)):
        raise UserError(task.name, "algorithm", reason, ("what a device explores for", *_WITH))
    elif (rows := task.replay.capacity) < (count := task.training.actors):
        raise UserError(task.name, "actors", count, (f"at most replay.capacity, {rows},", *_WITH))
    learner = mapping.learner
    managed = learner if task.replay.prioritized else NATIVE
    together = learner == mapping.storage and mapping.rmm == managed and learner.precision == FLOAT_32
    if learner.backend not in BACKENDS or not together:
        allowed = ", ".join(
            f"{backend}-{backend if task.replay.prioritized else NATIVE}-{backend}" for backend in BACKENDS
        )
        raise UserError(
            task.name, "mapping", mapping, (f"one device for all parts, such as {allowed},", *_WITH)
        )


def _environments() -> tuple[object, ...]:
    return (", ".join(device_environments.ids()), *_WITH)
