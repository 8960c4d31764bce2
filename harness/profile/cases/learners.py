"""The cases of learners in a state of real training (`trained.py`), and of steps in several streams."""

from collections.abc import Iterator, Sequence
from functools import cache, partial

import numpy as np

from placerl.harness.mapping import Target
from placerl.harness.measure.protocol import Case
from placerl.harness.pieces.base import PrimitiveCase
from placerl.harness.pieces.learners import (
    TRAINED,
    check_step,
    infer_case,
    learner_targets,
    state_columns,
    step_case,
)
from placerl.harness.pieces.work import infer_work, step_work
from placerl.harness.profile.cases.trained import profiled_start
from placerl.harness.runtime.learners.streamed import BACKEND, StreamedLearner
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives.algorithms.custom import CustomAlgorithm
from placerl.primitives.quantization.precision import FLOAT_32

STREAMS = (2, 4)
"""Numbers of streams in which a gradient step on OpenCL is timed, next to one."""


def learner_cases(
    workload: Workload, batch_size: int, precisions: Sequence[str] = (FLOAT_32,)
) -> Iterator[PrimitiveCase]:
    """Yield the benchmark cases of a learner on each backend and device.

    They are `learner.step`, a gradient step from a state of real training (`trained.py`) on batches of it;
    `fresh_learner.step`, a gradient step from initial parameters on random batches; and `actor.infer`, the choice of an
    exploring action for one observation. The NumPy reference is left out: the others are checked against it, and no
    mapping uses it.
    """
    # Counting the work needs a trace of the step, which asv and pytest-benchmark do not need.
    step, infer = cache(lambda: step_work(workload, batch_size)), cache(lambda: infer_work(workload))
    for target in learner_targets(precisions):
        start = partial(profiled_start, workload)
        yield step_case(workload, batch_size, target, start, work=step)
        yield step_case(workload, batch_size, target)
        yield infer_case(workload, batch_size, target, start, infer)


def streamed_cases(workload: Workload, batch_size: int) -> Iterator[PrimitiveCase]:
    """Yield the benchmark cases of gradient steps in several streams of an OpenCL device (PRL 4.2.1).

    `learner.step in N streams` is the step of `learner.step` with the batch divided between N command queues. PRL's
    composer chooses N from these times (`harness.mapping.strategies.pearl24`).
    """
    if isinstance(algorithm_of(workload), CustomAlgorithm):
        return  # a step of one's own cannot be divided at its gradients
    for target in learner_targets():
        if target.backend != BACKEND:
            continue
        for streams in STREAMS:
            if streams <= batch_size:
                yield _streamed_case(workload, batch_size, target, streams)


def _streamed_case(workload: Workload, batch_size: int, target: Target, streams: int) -> PrimitiveCase:
    start = cache(lambda: profiled_start(workload))

    def setup() -> StreamedLearner:
        streamed = StreamedLearner(
            algorithm_of(workload), streams, target.location or None, batch_size=batch_size
        )
        streamed.load_state_dict(start().state)
        return streamed

    def check(streamed: StreamedLearner) -> None:
        check_step(workload, streamed, start().batch(batch_size, np.random.default_rng(4)))

    name = f"learner.step in {streams} streams"
    return PrimitiveCase(
        name,
        target,
        batch_size,
        Case(
            name=f"{name} {target}",
            setup=setup,
            check=check,
            inputs=lambda streamed, rng: start().batch(batch_size, rng),
            call=lambda streamed, batch: streamed.step(batch),
            close=StreamedLearner.close,
            elsewhere=not target.on_host,
        ),
        columns=state_columns(target, TRAINED),
    )
