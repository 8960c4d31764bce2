"""Checks that the parts that a mapping names are here and support what is asked for, and creates them."""

from dataclasses import replace
from typing import Any

import numpy as np

from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import DELAY, STRICT, InitialPriorities, Schedule
from placerl.harness.mapping import Mapping, Target
from placerl.harness.pieces.memory import check_learner
from placerl.harness.runtime.learners.streamed import BACKEND, StreamedLearner
from placerl.harness.workloads.custom_task import CustomTask
from placerl.harness.workloads.task import Task, algorithm_of
from placerl.primitives import learner, sum_tree
from placerl.primitives.algorithms.custom import CustomAlgorithm
from placerl.primitives.backend import BackendUnavailableError
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.learner import Learner, UnsupportedOperationError
from placerl.primitives.learner.fpga import pipeline
from placerl.primitives.quantization.precision import DYNAMIC, FLOAT_32, IN_FLOATS
from placerl.primitives.replay import device

PIPELINED = "fpga"
"""The learner backend whose pipelines are streams."""


def check(task: Task, mapping: Mapping, delay: int | None = None) -> None:
    """Check that a mapping's parts can be created on this machine, by asking for them, without creating any.

    A learner is created, a small one, in two cases only: whether a backend has every operation of a user's own step,
    and whether fixed point can express the products of a batch, is known once the step is traced.

    Args:
        delay: requested gradient steps before a learner of precision "dynamic" narrows its activations.

    Raises:
        UserError: the mapping names a backend, a device or a precision that does not exist here, its precision is not
            compatible with the delay, or there is too little memory for the learner.
    """
    target, batch_size = mapping.learner, task.training.batch_size
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


def learner_of(
    task: Task, mapping: Mapping, seed: np.random.SeedSequence, schedule: Schedule = STRICT
) -> Learner:
    """Create the learner that a mapping names, for a task.

    Args:
        task, mapping: give the algorithm and the batch size, and the learner's backend, device and precision.
        seed: seed of the learner's first state and of its random draws.
        schedule: gives the threads of a native learner (PyTorch's are set for the whole process, and other backends
            choose their own), its delay and its streams, and whether actors also compute TD errors.

    Raises:
        UserError: the learner's backend, device or precision does not exist here.
    """
    target, streams, batch_size = mapping.learner, schedule.streams, task.training.batch_size
    first_seed = int(seed.generate_state(1)[0])
    by_actor = schedule.initial_priorities is InitialPriorities.ACTOR
    algorithm = algorithm_of(task, evaluating=by_actor)
    if target.backend == BACKEND and streams is not None and streams > 1:
        return StreamedLearner(
            algorithm, streams, target.location or None, batch_size=batch_size, seed=first_seed
        )
    own: dict[str, Any] = {"threads": schedule.threads} if target.backend == "native" else {}
    if target.backend == PIPELINED and streams is not None:
        own = {"pipelines": streams}
    own |= precision_of(mapping, schedule.delay)
    trainee: Learner = created(
        mapping, "learner", target, learner.create, algorithm, batch_size=batch_size, seed=first_seed, **own
    )
    return trainee


def check_streams(task: Task, mapping: Mapping, streams: int | None) -> None:
    """Raise UserError if a mapping's learner cannot work in a number of streams.

    If too many pipelines are requested for a simulated FPGA, the error names the resources that are too few.

    Args:
        task: gives the algorithm; a program's own step cannot be cut at its gradients.
        mapping: gives the learner's backend.
        streams: number of streams; None: as many as the learner has by itself.
    """
    if streams is None:
        return
    if mapping.learner.backend == PIPELINED:
        _check_pipelines(task, mapping, streams)
        return
    if streams == 1:
        return
    if mapping.learner.backend != BACKEND:
        allowed = f"1: only a learner on {BACKEND} or {PIPELINED} has streams"
        raise UserError(mapping, "streams", streams, allowed)
    if isinstance(algorithm_of(task), CustomAlgorithm):
        raise UserError(task.name, "streams", streams, "1 with a step of your own")
    batch_size = task.training.batch_size
    if not 1 <= streams <= batch_size:
        raise UserError(task.name, "streams", streams, f"1 to the batch size, {batch_size}")


def _check_pipelines(task: Task, mapping: Mapping, pipelines: int) -> None:
    """Raise UserError if a simulated FPGA cannot have a number of learner pipelines for a task."""
    board = mapping.learner.location or next(iter(catalogue.clocks_hz()))
    if board not in catalogue.clocks_hz():
        return  # creating the learner fails, and names the boards
    try:
        resources, batch_size = catalogue.device(board), task.training.batch_size
        pipeline.best_design(algorithm_of(task), batch_size, resources, pipelines=pipelines)
    except ValueError as error:
        _, listed, allowed = str(error).partition("; allowed: ")
        raise UserError(mapping, "streams", pipelines, allowed if listed else error) from error


def delay_of(mapping: Mapping, delay: int | None) -> int | None:
    """Return the gradient steps after which a mapping's learner narrows its activations; None if it never does.

    Args:
        delay: the requested delay; None means `DELAY`.
    """
    if mapping.learner.precision != DYNAMIC:
        return None
    return DELAY if delay is None else delay


def check_delay(mapping: Mapping, delay: int | None, steps: int) -> None:
    """Raise UserError if a run would end before its learner narrows its activations.

    Args:
        mapping: the mapping; only learners of precision "dynamic" narrow their activations.
        delay: requested gradient steps before that; None: `DELAY`.
        steps: gradient steps of the run.
    """
    in_effect = delay_of(mapping, delay)
    if in_effect is not None and in_effect >= steps:
        raise UserError(
            mapping, "delay", in_effect, f"less than the run's {steps} gradient steps after its warm-up"
        )


def precision_of(mapping: Mapping, delay: int | None) -> dict[str, Any]:
    """Return the options of a mapping's learner for its precision; empty for float32.

    Args:
        mapping: backend, device and precision of the learner.
        delay: requested gradient steps before a learner of precision "dynamic" narrows; None: `DELAY`.

    Raises:
        UserError: the backend lacks the precision, or it is not compatible with the delay.
    """
    target = mapping.learner
    if delay is not None and (target.precision != DYNAMIC or delay < 1):
        allowed = f"gradient steps, at least 1, with a learner of precision {DYNAMIC}"
        raise UserError(mapping, "delay", delay, allowed)
    if target.precision == FLOAT_32:
        return {}
    if target.backend in {status.name for status in learner.backends()}:
        able = [replace(target, precision=one) for one in learner.precisions(target.backend)]
        if target not in able:
            raise UserError(mapping, "learner", target, ", ".join(map(str, able)))
    own = {"precision": target.precision}
    return own if (in_effect := delay_of(mapping, delay)) is None else own | {"delay": in_effect}


def created(mapping: Mapping, part: str, target: Target, create: Any, *arguments: Any, **options: Any) -> Any:
    """Call `create` for a target of a mapping, and return the part that it creates.

    Args:
        mapping: the mapping.
        part: which of the mapping's parts it is, such as "learner".
        target: backend and device of the part.
        create: creates the part from `arguments`, `backend`, `options` and, if the target has a location, `device`.
        arguments, options: arguments of `create`.

    Raises:
        UserError: `create` refused an argument, as the mapping's error.
    """
    if target.location:
        options["device"] = target.location
    try:
        return create(*arguments, backend=target.backend, **options)
    except UnsupportedOperationError as error:
        allowed = f'mapping="torch-{mapping.rmm}-cpu", which runs every step: {error}'
        raise UserError(mapping, part, target, allowed, names=()) from error
    except (ValueError, BackendUnavailableError) as error:
        _, listed, allowed = str(error).partition("; allowed: ")
        raise UserError(mapping, part, target, allowed if listed else error, name=target.backend) from error
    except TypeError as error:
        if not target.location:
            raise
        raise UserError(mapping, part, target, f"{target.backend}: it has one device") from error
