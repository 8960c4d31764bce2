"""Creates the learner that a mapping names, and checks what it supports."""

from dataclasses import replace
from typing import Any

import numpy as np

from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import DELAY
from placerl.harness.mapping import Mapping, Target
from placerl.harness.runtime.learners.streamed import BACKEND, StreamedLearner
from placerl.harness.workloads.task import Task, algorithm_of
from placerl.primitives import learner
from placerl.primitives.algorithms.custom import CustomAlgorithm
from placerl.primitives.backend import BackendUnavailableError
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.learner import Learner, UnsupportedOperationError
from placerl.primitives.learner.fpga import pipeline
from placerl.primitives.quantization.precision import DYNAMIC, FLOAT_32

PIPELINED = "fpga"
"""The learner backend whose pipelines are streams."""


def learner_of(
    workload: Task,
    mapping: Mapping,
    batch_size: int,
    seed: np.random.SeedSequence,
    threads: int = 1,
    delay: int | None = None,
    streams: int | None = None,
    *,
    evaluating: bool = False,
) -> Learner:
    """Create the learner that a mapping names, for a task.

    Args:
        workload, mapping: give the algorithm and the learner's backend, device and precision.
        seed: seed of the learner's first state and of its random draws.
        threads: threads of a native learner. PyTorch's threads are set for the whole process; other backends choose
            their own.
        delay: gradient steps before a learner of precision "dynamic" narrows its activations; `DELAY` if None.
        streams: streams of a learner on OpenCL, or pipelines of one on the simulated FPGA; None: as many as it has by
            itself.
        evaluating: whether actors also compute TD errors (`Algorithm.evaluating`).

    Raises:
        UserError: the learner's backend, device or precision does not exist here.
    """
    first_seed = int(seed.generate_state(1)[0])
    algorithm = algorithm_of(workload, evaluating=evaluating)
    if mapping.learner.backend == BACKEND and streams is not None and streams > 1:
        return StreamedLearner(
            algorithm,
            streams,
            mapping.learner.location or None,
            batch_size=batch_size,
            seed=first_seed,
        )
    own: dict[str, Any] = {"threads": threads} if mapping.learner.backend == "native" else {}
    if mapping.learner.backend == PIPELINED and streams is not None:
        own = {"pipelines": streams}
    made: Learner = created(
        mapping,
        "learner",
        mapping.learner,
        learner.create,
        algorithm,
        batch_size=batch_size,
        seed=first_seed,
        **own,
        **precision_of(mapping, delay),
    )
    return made


def check_streams(workload: Task, mapping: Mapping, batch_size: int, streams: int | None) -> None:
    """Raise UserError if a mapping's learner cannot work in a number of streams.

    If too many pipelines are requested for a simulated FPGA, the error names the resources that are too few.

    Args:
        workload: gives the algorithm; a program's own step cannot be cut at its gradients.
        mapping: gives the learner's backend.
        streams: number of streams; None: as many as the learner has by itself.
    """
    if streams is None:
        return
    if mapping.learner.backend == PIPELINED:
        _check_pipelines(workload, mapping, batch_size, streams)
        return
    if streams == 1:
        return
    if mapping.learner.backend != BACKEND:
        allowed = f"1: only a learner on {BACKEND} or {PIPELINED} has streams"
        raise UserError(mapping, "streams", streams, allowed)
    if isinstance(algorithm_of(workload), CustomAlgorithm):
        raise UserError(workload.name, "streams", streams, "1 with a step of your own")
    if not 1 <= streams <= batch_size:
        raise UserError(workload.name, "streams", streams, f"1 to the batch size, {batch_size}")


def _check_pipelines(workload: Task, mapping: Mapping, batch_size: int, pipelines: int) -> None:
    """Raise UserError if a simulated FPGA cannot have a number of learner pipelines for a task."""
    board = mapping.learner.location or next(iter(catalogue.clocks_hz()))
    if board not in catalogue.clocks_hz():
        return  # creating the learner fails, and names the boards
    try:
        pipeline.best_design(algorithm_of(workload), batch_size, catalogue.device(board), pipelines=pipelines)
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
    found = delay_of(mapping, delay)
    if found is not None and found >= steps:
        raise UserError(
            mapping, "delay", found, f"less than the run's {steps} gradient steps after its warm-up"
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
    return own if (found := delay_of(mapping, delay)) is None else own | {"delay": found}


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
    except (ValueError, BackendUnavailableError, UnsupportedOperationError) as error:
        _, listed, allowed = str(error).partition("; allowed: ")
        raise UserError(mapping, part, target, allowed if listed else error, name=target.backend) from error
    except TypeError as error:
        if not target.location:
            raise
        raise UserError(mapping, part, target, f"{target.backend}: it has one device") from error
