"""Defines how the learner's gradient step and the actor's inference are timed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

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
from placerl.harness.pieces.memory import require_learner
from placerl.harness.pieces.work import Work
from placerl.harness.workloads import Workload
from placerl.harness.workloads.custom_task import CustomTask
from placerl.harness.workloads.task import Task, algorithm_of, columns_of
from placerl.primitives import _native, learner
from placerl.primitives.algorithms import tree
from placerl.primitives.learner import Learner, aware_training
from placerl.primitives.learner.aware_training import FixedPointLearner
from placerl.primitives.learner.native.native_backend import NativeLearner
from placerl.primitives.quantization.precision import BFLOAT_16, DYNAMIC, FLOAT_32
from placerl.primitives.replay import FieldSpec

FRESH_STEP = "fresh_learner.step"
"""Name of the primitive that is a step from a fresh state on random batches; `learner.step` is from a trained state."""
TRAINED, FRESH = "trained", "fresh"
"""Values of `state` of a learner's row: the state that the timed steps start from."""
CUDA = "cuda"
"""The learner whose kernels are generated from the step graph, on a CUDA device."""
EMULATED = "emulated"
"""The result of `bfloat16_products` if float32 instructions compute the products and round as bfloat16's would."""
LATE = 10**9  # an environment step at which exploration has reached its final rate


@dataclass(frozen=True)
class TrainedStart:
    """The state and the samples from which timed learners continue.

    Attributes:
        steps: gradient steps of the training that made the state and the samples.
        state: the learner's state by name, from `Learner.state_dict`; it fits learners of every batch size and backend.
        columns: samples of the replay, (n, ...) for each column; on-policy, the samples of the last iteration.
    """

    steps: int
    state: dict[str, npt.NDArray]
    columns: dict[str, npt.NDArray]

    def batch(self, size: int, rng: np.random.Generator) -> dict[str, npt.NDArray]:
        """Return a batch of `size` of the samples, drawn with replacement, as an array of `size` rows by column."""
        rows = rng.integers(0, len(next(iter(self.columns.values()))), size)
        return {name: column[rows] for name, column in self.columns.items()}


def learner_targets(precisions: Sequence[str] = (FLOAT_32,)) -> list[Target]:
    """Return every backend and device that can run learners on this machine, in each precision that it supports.

    "cuda" is left out: outside the resident loop, which times it itself, PyTorch's learner is the one on a CUDA device.

    Args:
        precisions: the precisions to consider, as `primitives.learner.create` takes them.
    """
    in_float32 = [target for target in targets(learner.backends(), "torch") if target.backend != CUDA]
    return [
        replace(target, precision=precision)
        for precision in precisions
        for target in in_float32
        if precision in learner.precisions(target.backend)
    ]


def bfloat16_products() -> str:
    """Return how native learners in bfloat16 multiply here: "amx", "avx512bf16" or `EMULATED`."""
    return str(_native.learner.Executor(64, products=BFLOAT_16).products)


def state_columns(target: Target, state: str) -> dict[str, str]:
    """Return the columns of a learner's row: the state that it starts from, and how it multiplies if in bfloat16."""
    rounded = target.precision == BFLOAT_16
    return {"state": state} | ({"products": bfloat16_products()} if rounded else {})


def expected_td_errors(
    workload: Task, trainee: Learner, batch: Mapping[str, npt.NDArray], weights: npt.NDArray | None = None
) -> npt.NDArray[np.float64]:
    """Return the TD errors that a learner's next step should give.

    They are those of the algorithm's pure step in float64 from the same state. For a native learner in bfloat16 they
    are those of a learner that emulates the rounded products with float32 instructions, and for a user's own step,
    whose state has the user's precision, those of the NumPy reference.

    Args:
        trainee: a learner; it is not changed.
        batch: columns of its next step.
        weights: (B,) importance weights; by default all 1.
    """
    if isinstance(trainee, NativeLearner) and trainee.products != FLOAT_32:
        definition = learner.create(
            trainee.algorithm,
            backend="native",
            batch_size=trainee.batch_size,
            products="emulated",
            simd="portable",
        )
        definition.load_state_dict(trainee.state_dict())
        return definition.step(batch, weights).td_errors.astype(np.float64)
    if isinstance(workload, CustomTask):
        definition = learner.create(trainee.algorithm, backend=REFERENCE, batch_size=trainee.batch_size)
        definition.load_state_dict(trainee.state_dict())
        return definition.step(batch, weights).td_errors.astype(np.float64)
    state, wide = trainee.state_dict(), algorithm_of(workload, torch.float64)
    generator = torch.Generator()
    generator.set_state(torch.from_numpy(state["generator"]))
    draws = trainee.algorithm.draw(trainee.batch_size, generator)
    leaves = {name: _widened(torch.from_numpy(state[name])) for name in tree.flatten(_structure(wide))}
    needed = wide.columns(trainee.batch_size)
    columns = {name: _widened(torch.from_numpy(batch[name])) for name in needed if name in batch}
    if "terminated" in needed:
        columns["terminated"] = columns["terminated"].to(torch.float64)
    if "weight" in needed:
        ones = np.ones(trainee.batch_size)
        columns["weight"] = torch.from_numpy(np.asarray(ones if weights is None else weights, np.float64))
    result = wide.gradient_step(
        tree.unflatten(_structure(wide), leaves),
        columns,
        {name: _widened(draw) for name, draw in draws.items()},
        wide.variant(trainee.gradient_steps),
    )
    return result.td_error.detach().numpy()


def _structure(algorithm: learner.Algorithm) -> object:
    return algorithm.initialise(torch.Generator())


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float64) if tensor.dtype == torch.float32 else tensor


def expect_td_errors(actual: npt.NDArray, expected: npt.NDArray) -> None:
    """Raise AssertionError unless TD errors equal the expected ones up to float32's rounding."""
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-3, err_msg="TD errors")


def check_step(
    workload: Task,
    trainee: Learner,
    batch: Mapping[str, npt.NDArray],
    weights: npt.NDArray | None = None,
) -> None:
    """Take a gradient step, and check its results.

    In floating point the TD errors must equal those of the pure step in float64 up to rounding. In fixed point the
    TD errors and the state after the step must equal those of the NumPy reference bit by bit.

    Args:
        trainee: the learner that takes the step.
        weights: (B,) importance weights; by default all 1.

    Raises:
        AssertionError: the results are wrong.
    """
    if not isinstance(trainee, FixedPointLearner):
        expected = expected_td_errors(workload, trainee, batch, weights)
        expect_td_errors(trainee.step(batch, weights).td_errors, expected)
        return
    definition = definition_of(trainee)
    expected = definition.step(batch, weights).td_errors
    expect_equal(trainee.step(batch, weights).td_errors, expected, "TD errors")
    for name in trainee.fixed.state_buffers:
        expect_equal(trainee.fixed.raw(name), definition.fixed.raw(name), name)


def definition_of(trainee: FixedPointLearner) -> FixedPointLearner:
    """Return the NumPy reference of a fixed-point learner, in the same state."""
    definition = aware_training.create(
        trainee.algorithm, trainee.precision, backend=REFERENCE, batch_size=trainee.batch_size
    )
    definition.load_state_dict(trainee.state_dict())
    return definition


def created(
    workload: Task, batch_size: int, target: Target, start: TrainedStart | None = None, threads: int = 1
) -> Learner:
    """Return the workload's learner on a backend and device, ready to be timed.

    A learner of precision "dynamic" has already narrowed its activations.

    Args:
        start: the trained state from which it continues; None: a fresh one.
    """
    require_learner(workload, batch_size, target.backend)
    options = options_of(target) | {"precision": target.precision}
    if threads > 1 and target.backend == NATIVE.backend:
        options["threads"] = threads
    if target.precision != DYNAMIC:
        trainee = learner.create(algorithm_of(workload), batch_size=batch_size, seed=0, **options)
        if start:
            trainee.load_state_dict(start.state)
        return trainee
    trainee = learner.create(algorithm_of(workload), batch_size=batch_size, seed=0, delay=1, **options)
    if start:  # it narrows by what it has seen, so its delay begins now
        trainee.load_state_dict(start.state | {"gradient_steps": np.array(0)})
    rng = np.random.default_rng(8)
    for _ in range(2):
        trainee.step(start.batch(batch_size, rng) if start else random_batch(workload, batch_size, rng))
    return trainee


def random_batch(workload: Task, batch_size: int, rng: np.random.Generator) -> dict[str, npt.NDArray]:
    """Return a random batch with the columns of the workload's algorithm, without importance weights."""
    algorithm = algorithm_of(workload)
    if isinstance(workload, CustomTask):  # whose step may take roots or logarithms
        columns = random_transitions(columns_of(workload), batch_size, rng)
        return {
            name: rng.random(column.shape).astype(column.dtype) if column.dtype.kind == "f" else column
            for name, column in columns.items()
        }
    if "reward" in algorithm.columns(batch_size):
        return random_transitions(columns_of(workload), batch_size, rng)
    fields = {
        name: FieldSpec(shape[1:], str(dtype).removeprefix("torch."))
        for name, (shape, dtype) in algorithm.columns(batch_size).items()
    }
    batch = random_transitions(fields, batch_size, rng)
    batch["log_probability"] -= 3 * workload.environment.action_size  # about that of a random action
    return batch


def step_case(
    task: Task,
    batch_size: int,
    target: Target,
    start: Callable[[], TrainedStart] | None = None,
    *,
    threads: int = 1,
    work: Callable[[], Work] | None = None,
) -> PrimitiveCase:
    """Return the case of a learner's gradient step.

    Args:
        start: returns the trained state and the samples from which `learner.step` is timed; None: `FRESH_STEP`, from
            initial parameters on random batches.
        threads: threads of a native learner.
        work: counts the operations and bytes of a step.
    """

    def inputs(trainee: Learner, rng: np.random.Generator) -> dict[str, npt.NDArray]:
        return start().batch(batch_size, rng) if start else random_batch(task, batch_size, rng)

    def check(trainee: Learner) -> None:
        check_step(task, trainee, inputs(trainee, np.random.default_rng(4)))

    name = "learner.step" if start else FRESH_STEP
    return PrimitiveCase(
        name,
        target,
        batch_size,
        Case(
            name=f"{name} {target}",
            setup=lambda: created(task, batch_size, target, start() if start else None, threads),
            check=check,
            inputs=inputs,
            call=lambda trainee, batch: trainee.step(batch),
            elsewhere=not target.on_host,
        ),
        work=work,
        columns=state_columns(target, TRAINED if start else FRESH),
    )


def infer_case(
    workload: Workload,
    batch_size: int,
    target: Target,
    start: Callable[[], TrainedStart],
    work: Callable[[], Work],
) -> PrimitiveCase:
    """Return the case of an actor's inference: the choice of an exploring action for one observation.

    Args:
        workload, batch_size: define the sizes; the batch is that of the learner whose policy acts.
        start: returns the trained state that it has.
        work: counts the operations and bytes of a choice.
    """
    fields = columns_of(workload)
    exploration = np.random.default_rng(6)

    def observations(trainee: Learner, rng: np.random.Generator) -> npt.NDArray:
        return random_transitions(fields, 1, rng)["observation"]

    def check(trainee: Learner) -> None:
        # A backend's row must never be the time of something that ran elsewhere.
        if refusal := getattr(trainee, "acting_refusal", ""):
            raise AssertionError(f"its act runs in NumPy: {refusal}")
        observation = observations(trainee, np.random.default_rng(5))
        if isinstance(trainee, FixedPointLearner):
            expect_equal(trainee.act(observation), definition_of(trainee).act(observation), "action")
            return
        wide = algorithm_of(workload, torch.float64)
        parameters = {name: value.astype(np.float64) for name, value in trainee.parameters().items()}
        expected = wide.act(parameters, observation.astype(np.float64))
        np.testing.assert_allclose(trainee.act(observation), expected, rtol=1e-3, atol=1e-3, err_msg="action")

    return PrimitiveCase(
        "actor.infer",
        target,
        1,
        Case(
            name=f"actor.infer {target}",
            setup=lambda: created(workload, batch_size, target, start()),
            check=check,
            inputs=observations,
            call=lambda trainee, observation: trainee.explore(observation, LATE, exploration),
            elsewhere=not target.on_host,
        ),
        work=work,
    )
