"""Defines how the learner's gradient step and the actor's inference are timed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import torch

from placerl.harness.mapping import Target
from placerl.harness.mapping.candidates import REFERENCE
from placerl.harness.mapping.target import NATIVE
from placerl.harness.measure.protocol import Case
from placerl.harness.pieces.base import (
    PrimitiveCase,
    expect_equal,
    options_of,
    random_transitions,
    targets,
)
from placerl.harness.pieces.learner_memory import require_learner
from placerl.harness.pieces.work import Work, infer_work, step_work
from placerl.harness.profile.cases.trained import TrainedStart, profiled_start
from placerl.harness.runtime.learners.streamed import BACKEND, StreamedLearner
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import algorithm_of, columns_of
from placerl.primitives import _native, learner
from placerl.primitives.algorithms import tree
from placerl.primitives.algorithms.custom import CustomAlgorithm
from placerl.primitives.learner import Learner, aware_training
from placerl.primitives.learner.aware_training import FixedPointLearner
from placerl.primitives.learner.native.learner import NativeLearner
from placerl.primitives.quantization.precision import BFLOAT_16, DYNAMIC, FLOAT_32
from placerl.primitives.replay import FieldSpec

FRESH_STEP = "fresh_learner.step"
"""Name of the primitive that is a step from a fresh state on random batches; `learner.step` is from a trained state."""
TRAINED, FRESH = "trained", "fresh"
"""Values of `state` in the details of a learner's row: the state that the timed steps start from."""
STREAMS = (2, 4)
"""Numbers of streams in which a gradient step on OpenCL is timed, next to one."""
EMULATED = "emulated"
"""The result of `bfloat16_products` if float32 instructions compute the products and round as bfloat16's would."""
LATE = 10**9  # an environment step at which exploration has reached its final rate


def learner_cases(
    workload: Workload, batch_size: int, precisions: Sequence[str] = (FLOAT_32,)
) -> Iterator[PrimitiveCase]:
    """Yield the benchmark cases of a learner on each backend and device.

    They are `learner.step`, a gradient step from a state of real training (`trained.py`) on batches of it;
    `fresh_learner.step`, a gradient step from initial parameters on random batches; and `actor.infer`, the choice of an
    exploring action for one observation. The NumPy reference is left out: the others are checked against it, and no
    mapping uses it.

    Args:
        workload, batch_size: define the sizes.
        precisions: precisions of the learners.
    """
    # Counting the work needs a trace of the step, which asv and pytest-benchmark do not need.
    step, infer = cache(lambda: step_work(workload, batch_size)), cache(lambda: infer_work(workload))
    for target in learner_targets(precisions):
        yield _step_case(workload, batch_size, target, step)
        yield _fresh_step_case(workload, batch_size, target)
        yield _infer_case(workload, batch_size, target, infer)


def streamed_cases(workload: Workload, batch_size: int) -> Iterator[PrimitiveCase]:
    """Yield the benchmark cases of gradient steps in several streams of an OpenCL device (PRL 4.2.1).

    `learner.step in N streams` is the step of `learner.step` with the batch divided between N command queues. PRL's
    composer chooses N from these times (`harness.mapping.strategies.pearl24`).

    Args:
        workload, batch_size: define the sizes.
    """
    if isinstance(algorithm_of(workload), CustomAlgorithm):
        return  # a step of one's own cannot be divided at its gradients
    for target in learner_targets():
        if target.backend != BACKEND:
            continue
        for streams in STREAMS:
            if streams <= batch_size:
                yield _streamed_case(workload, batch_size, target, streams)


def learner_targets(precisions: Sequence[str] = (FLOAT_32,)) -> list[Target]:
    """Return every backend and device that can run learners on this machine, in each precision that it supports.

    Args:
        precisions: the precisions to consider, as `primitives.learner.create` takes them.
    """
    found = targets(learner.backends(), "torch")
    return [
        replace(target, precision=precision)
        for precision in precisions
        for target in found
        if precision in learner.precisions(target.backend)
    ]


def bfloat16_products() -> str:
    """Return how native learners in bfloat16 multiply here: "amx", "avx512bf16" or `EMULATED`."""
    return str(_native.learner.Executor(64, products=BFLOAT_16).products)


def _details(target: Target, state: str) -> dict[str, str]:
    """Return the details of a learner's row: the state that it starts from, and how it multiplies if in bfloat16."""
    rounded = target.precision == BFLOAT_16
    return {"state": state} | ({"products": bfloat16_products()} if rounded else {})


def expected_td_errors(
    workload: Workload, made: Learner, batch: Mapping[str, npt.NDArray], weights: npt.NDArray | None = None
) -> npt.NDArray[np.float64]:
    """Return the TD errors that a learner's next step should give.

    They are those of the algorithm's pure step in float64 from the same state. For a native learner in bfloat16 they
    are those of a learner that emulates the rounded products with float32 instructions.

    Args:
        workload: the workload whose algorithm is learnt.
        made: a learner; it is not changed.
        batch: columns of its next step.
        weights: (B,) importance weights; by default all 1.
    """
    if isinstance(made, NativeLearner) and made.products != FLOAT_32:
        definition = learner.create(
            made.algorithm, backend="native", batch_size=made.batch_size, products="emulated", simd="portable"
        )
        definition.load_state_dict(made.state_dict())
        return definition.step(batch, weights).td_errors.astype(np.float64)
    state, wide = made.state_dict(), algorithm_of(workload, torch.float64)
    generator = torch.Generator()
    generator.set_state(torch.from_numpy(state["generator"]))
    draws = made.algorithm.draw(made.batch_size, generator)
    leaves = {name: _widened(torch.from_numpy(state[name])) for name in tree.flatten(_structure(wide))}
    needed = wide.columns(made.batch_size)
    columns = {name: _widened(torch.from_numpy(batch[name])) for name in needed if name in batch}
    if "terminated" in needed:
        columns["terminated"] = columns["terminated"].to(torch.float64)
    if "weight" in needed:
        ones = np.ones(made.batch_size)
        columns["weight"] = torch.from_numpy(np.asarray(ones if weights is None else weights, np.float64))
    result = wide.gradient_step(
        tree.unflatten(_structure(wide), leaves),
        columns,
        {name: _widened(draw) for name, draw in draws.items()},
        wide.variant(made.gradient_steps),
    )
    return result.td_error.detach().numpy()


def _structure(algorithm: learner.Algorithm) -> object:
    return algorithm.initialise(torch.Generator())


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float64) if tensor.dtype == torch.float32 else tensor


def expect_td_errors(found: npt.NDArray, expected: npt.NDArray) -> None:
    """Raise AssertionError unless TD errors equal the expected ones up to float32's rounding."""
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3, err_msg="TD errors")


def check_step(
    workload: Workload,
    made: Learner,
    batch: Mapping[str, npt.NDArray],
    weights: npt.NDArray | None = None,
) -> None:
    """Take a gradient step, and check its results.

    In floating point the TD errors must equal those of the pure step in float64 up to rounding. In fixed point the
    TD errors and the state after the step must equal those of the NumPy reference bit by bit.

    Args:
        workload: the workload whose algorithm is learnt.
        made: the learner that takes the step.
        batch: columns of the step.
        weights: (B,) importance weights; by default all 1.

    Raises:
        AssertionError: the results are wrong.
    """
    if not isinstance(made, FixedPointLearner):
        expected = expected_td_errors(workload, made, batch, weights)
        expect_td_errors(made.step(batch, weights).td_errors, expected)
        return
    definition = definition_of(made)
    expected = definition.step(batch, weights).td_errors
    expect_equal(made.step(batch, weights).td_errors, expected, "TD errors")
    for name in made.fixed.state_buffers:
        expect_equal(made.fixed.raw(name), definition.fixed.raw(name), name)


def definition_of(made: FixedPointLearner) -> FixedPointLearner:
    """Return the NumPy reference of a fixed-point learner, in the same state."""
    definition = aware_training.create(
        made.algorithm, made.precision, backend=REFERENCE, batch_size=made.batch_size
    )
    definition.load_state_dict(made.state_dict())
    return definition


def created(
    workload: Workload, batch_size: int, target: Target, start: TrainedStart | None = None, threads: int = 1
) -> Learner:
    """Return the workload's learner on a backend and device, ready to be timed.

    A learner of precision "dynamic" has already narrowed its activations.

    Args:
        workload, batch_size: the workload and batch size that are learnt.
        target: backend, device and precision of the learner.
        start: the trained state from which it continues; None: a fresh one.
    """
    require_learner(workload, batch_size, target.backend)
    options = options_of(target) | {"precision": target.precision}
    if threads > 1 and target.backend == NATIVE.backend:
        options["threads"] = threads
    if target.precision != DYNAMIC:
        made = learner.create(algorithm_of(workload), batch_size=batch_size, seed=0, **options)
        if start:
            made.load_state_dict(start.state)
        return made
    made = learner.create(algorithm_of(workload), batch_size=batch_size, seed=0, delay=1, **options)
    if start:  # it narrows by what it has seen, so its delay begins now
        made.load_state_dict(start.state | {"gradient_steps": np.array(0)})
    rng = np.random.default_rng(8)
    for _ in range(2):
        made.step(start.batch(batch_size, rng) if start else random_batch(workload, batch_size, rng))
    return made


def random_batch(workload: Workload, batch_size: int, rng: np.random.Generator) -> dict[str, npt.NDArray]:
    """Return a random batch with the columns of the workload's algorithm, without importance weights.

    Args:
        workload: gives the columns and their sizes.
        batch_size: rows of the batch.
        rng: generator of the values.
    """
    algorithm = algorithm_of(workload)
    if "reward" in algorithm.columns(batch_size):
        return random_transitions(columns_of(workload), batch_size, rng)
    fields = {
        name: FieldSpec(shape[1:], str(dtype).removeprefix("torch."))
        for name, (shape, dtype) in algorithm.columns(batch_size).items()
    }
    batch = random_transitions(fields, batch_size, rng)
    batch["log_probability"] -= 3 * workload.environment.action_size  # about that of a random action
    return batch


def _step_case(
    workload: Workload, batch_size: int, target: Target, work: Callable[[], Work]
) -> PrimitiveCase:
    def inputs(made: Learner, rng: np.random.Generator) -> dict[str, npt.NDArray]:
        return profiled_start(workload).batch(batch_size, rng)

    def check(made: Learner) -> None:
        check_step(workload, made, inputs(made, np.random.default_rng(4)))

    return PrimitiveCase(
        "learner.step",
        target,
        batch_size,
        Case(
            name=f"learner.step {target}",
            setup=lambda: created(workload, batch_size, target, profiled_start(workload)),
            check=check,
            inputs=inputs,
            call=lambda made, batch: made.step(batch),
        ),
        work=work,
        details=_details(target, TRAINED),
    )


def _streamed_case(workload: Workload, batch_size: int, target: Target, streams: int) -> PrimitiveCase:
    start = cache(lambda: profiled_start(workload))

    def setup() -> StreamedLearner:
        made = StreamedLearner(
            algorithm_of(workload), streams, target.location or None, batch_size=batch_size
        )
        made.load_state_dict(start().state)
        return made

    def check(made: StreamedLearner) -> None:
        check_step(workload, made, start().batch(batch_size, np.random.default_rng(4)))

    name = f"learner.step in {streams} streams"
    return PrimitiveCase(
        name,
        target,
        batch_size,
        Case(
            name=f"{name} {target}",
            setup=setup,
            check=check,
            inputs=lambda made, rng: start().batch(batch_size, rng),
            call=lambda made, batch: made.step(batch),
            close=StreamedLearner.close,
        ),
        details=_details(target, TRAINED),
    )


def _fresh_step_case(workload: Workload, batch_size: int, target: Target) -> PrimitiveCase:
    def inputs(made: Learner, rng: np.random.Generator) -> dict[str, npt.NDArray]:
        return random_batch(workload, batch_size, rng)

    def check(made: Learner) -> None:
        check_step(workload, made, inputs(made, np.random.default_rng(4)))

    return PrimitiveCase(
        FRESH_STEP,
        target,
        batch_size,
        Case(
            name=f"{FRESH_STEP} {target}",
            setup=lambda: created(workload, batch_size, target),
            check=check,
            inputs=inputs,
            call=lambda made, batch: made.step(batch),
        ),
        details=_details(target, FRESH),
    )


def _infer_case(
    workload: Workload, batch_size: int, target: Target, work: Callable[[], Work]
) -> PrimitiveCase:
    fields = columns_of(workload)
    exploration = np.random.default_rng(6)

    def observations(made: Learner, rng: np.random.Generator) -> npt.NDArray:
        return random_transitions(fields, 1, rng)["observation"]

    def check(made: Learner) -> None:
        # A backend's row must never be the time of something that ran elsewhere.
        if refusal := getattr(made, "acting_refusal", ""):
            raise AssertionError(f"its act runs in NumPy: {refusal}")
        observation = observations(made, np.random.default_rng(5))
        if isinstance(made, FixedPointLearner):
            expect_equal(made.act(observation), definition_of(made).act(observation), "action")
            return
        wide = algorithm_of(workload, torch.float64)
        parameters = {name: value.astype(np.float64) for name, value in made.parameters().items()}
        expected = wide.act(parameters, observation.astype(np.float64))
        np.testing.assert_allclose(made.act(observation), expected, rtol=1e-3, atol=1e-3, err_msg="action")

    return PrimitiveCase(
        "actor.infer",
        target,
        1,
        Case(
            name=f"actor.infer {target}",
            setup=lambda: created(workload, batch_size, target, profiled_start(workload)),
            check=check,
            inputs=observations,
            call=lambda made, observation: made.explore(observation, LATE, exploration),
        ),
        work=work,
    )
