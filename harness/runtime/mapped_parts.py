"""Checks that the backends and devices that a mapping names are here, by asking them, without creating a part."""

from placerl.harness.core.errors import UserError
from placerl.harness.mapping import Mapping
from placerl.harness.pieces.learner_memory import check_learner
from placerl.harness.runtime.learners.creation import created, precision_of
from placerl.harness.workloads.custom_task import CustomTask
from placerl.harness.workloads.task import Task, algorithm_of
from placerl.primitives import learner, sum_tree
from placerl.primitives.quantization.precision import IN_FLOATS
from placerl.primitives.replay import device


def check(task: Task, mapping: Mapping, delay: int | None = None, batch_size: int = 2) -> None:
    """Check that a mapping's parts can be created on this machine.

    A learner is created, a small one, in two cases only: whether a backend has every operation of a user's own step,
    and whether fixed point can express the products of a batch, is known once the step is traced.

    Args:
        delay: requested gradient steps before a learner of precision "dynamic" narrows its activations.

    Raises:
        UserError: the mapping names a backend, a device or a precision that does not exist here, its precision is not
            compatible with the delay, or there is too little memory for the learner.
    """
    target = mapping.learner
    check_learner(task, batch_size, target.backend)
    check_storage(mapping)
    created(mapping, "rmm", mapping.rmm, sum_tree.check)
    own = precision_of(mapping, delay)
    created(mapping, "learner", target, learner.check)
    if isinstance(task, CustomTask) or target.precision not in IN_FLOATS:
        small = min(batch_size, 2)  # a batch of one loses dimensions that fixed point needs
        created(mapping, "learner", target, learner.create, algorithm_of(task), batch_size=small, **own)


def check_storage(mapping: Mapping) -> None:
    """Raise UserError if a mapping's storage is neither on the host, nor on a device here or of its simulated parts."""
    # simulated: the data is on the host, its time is that of the board's memory
    boards = [str(target.in_floats) for target in (mapping.rmm, mapping.learner) if target.backend == "fpga"]
    allowed = list(dict.fromkeys(["cpu", *boards]))
    if str(mapping.storage) in allowed:
        return
    usable = [status.name for status in device.backends() if status.available]
    if mapping.storage.backend not in usable:
        raise UserError(mapping, "storage", mapping.storage, " or ".join([*allowed, *usable]))
    created(mapping, "storage", mapping.storage, device.check)
