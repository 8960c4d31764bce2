"""Times gradient steps with replay that stay on a device, next to the same steps called one by one by the host.

Both use the kernels of one device, so that their ratio is what the host costs. Steps that stay there are timed alone
and, where the device has the workload's environment, in whole rounds. Of PPO, whole iterations are timed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

import numpy as np

from placerl.harness import workloads
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.loop.schedule import is_on_policy
from placerl.harness.measure.protocol import Case, Protocol, measure
from placerl.harness.measure.statistics import FEWEST_SAMPLES
from placerl.harness.pieces.storage import fitted
from placerl.harness.store.rows import BenchResult
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import algorithm_of, columns_of
from placerl.primitives import device
from placerl.primitives.device import Device
from placerl.primitives.environments import device_environments
from placerl.primitives.learner.device.executable import DeviceExecutable
from placerl.primitives.learner.device.resident_steps import ResidentSteps
from placerl.primitives.learner.graph_learner import GraphLearner
from placerl.primitives.replay import PrioritizedReplay
from placerl.primitives.replay.device import DeviceStorage
from placerl.primitives.replay.device.resident_prioritized import Prioritised, ResidentPrioritizedReplay
from placerl.primitives.sum_tree.gpu.device_tree import DeviceSumTree
from placerl.primitives.training.resident_iterations import ResidentIterations
from placerl.primitives.training.resident_rounds import ResidentActing, ResidentRounds

TIMED = (("cartpole-dqn", 32), ("hopper-ddpg", 256), ("cartpole-ppo", 16_384))
"""Workloads and batch sizes that are timed by default."""
ROUND, STEP, STRICT = "resident round", "resident step", "strict step"
AHEAD = "resident step, 1 batch ahead"
ITERATION = "resident iteration"
STEPS = {ROUND: 64, STEP: 64, AHEAD: 64, STRICT: 8, ITERATION: 64}
"""Gradient steps of a timed call; the host waits once for all of a resident call."""
CHUNK = 50_000
"""Items inserted at once."""
ENVIRONMENTS = 4096
"""Environments of PPO, whose samples are learnt from once: the sizes of PufferLib's own CartPole, with B (its
`config/cartpole.ini`), so that their rates can be compared.
"""


@dataclass(frozen=True, kw_only=True)
class ResidentStep(BenchResult, table="resident_step"):
    """The time of some gradient steps with replay on a device.

    Attributes:
        gradient_steps: gradient steps of a timed call.
        environment_steps: of PPO, environment steps of a timed call, over all environments.
    """

    gradient_steps: int | None = None
    environment_steps: int | None = None


def profile(
    item: Workload, batch_size: int, kind: str, budget_s: float, report: Report
) -> list[ResidentStep]:
    """Time a workload's gradient steps on a kind of device, in interleaved rounds.

    Args:
        kind: one of `device.KINDS`.
        budget_s: no further round begins after this time, seconds; but `FEWEST_SAMPLES` rounds always run.

    Returns:
        A row for each way of taking the steps; one row of status `not_run` if there is no such device here.
    """
    fields: dict[str, Any] = {"suite": Suite.BENCH_GPU, "workload": item.name, "batch_size": batch_size}
    if reason := device.unavailable_reason(kind):
        return [
            ResidentStep(
                quantity="time_per_call",
                provenance=Provenance.MEASURED,
                status="not_run",
                reason=f"not run: needs {kind}: {reason}",
                primitive=STEP,
                device=kind,
                **fields,
            )
        ]
    item = widened(item) if is_on_policy(item) else fitted(item)
    timings = measure(
        cases(item, batch_size, device.create(kind)),
        Protocol(budget_s=budget_s, fewest_rounds=FEWEST_SAMPLES),
        progress=lambda done, total: report(done, total, "interleaved rounds"),
    )
    return [
        timing.measurement(
            ResidentStep,
            primitive=name,
            backend=kind,
            device=kind,
            gradient_steps=STEPS[name],
            environment_steps=STEPS[name] * batch_size if name == ITERATION else None,
            capacity=item.replay.capacity,
            **fields,
        )
        for name, timing in timings.items()
    ]


def cases(item: Workload, batch_size: int, on: Device) -> Sequence[Case[Callable[[int], float]]]:
    """Return the cases to time; each is a function that takes gradient steps and returns a loss of the last ones."""

    def case(name: str, make: Callable[[Workload, int, Device], Callable[[int], float]]) -> Case[Any]:
        return Case(
            name,
            lambda: make(item, batch_size, on),
            check,
            lambda take, rng: STEPS[name],
            lambda take, steps: take(steps),
            elsewhere=True,
        )

    if is_on_policy(item):
        return [case(ITERATION, _iterations)]
    whole = [case(ROUND, _rounds)] if item.environment.id in device_environments.ids() else []
    return [*whole, case(STEP, _steps), case(AHEAD, partial(_steps, ahead=1)), case(STRICT, _strict)]


def widened(item: Workload) -> Workload:
    """Return a workload of PPO with `ENVIRONMENTS`, and one epoch of their samples in an iteration."""
    for name, value in (("training.actors", ENVIRONMENTS), ("algorithm.epochs", 1)):
        item = workloads.override(item, name, value, str(Suite.BENCH_GPU))
    return item


def check(take: Callable[[int], float]) -> None:
    """Raise ValueError if gradient steps do not give a finite loss that changes."""
    losses = [take(4) for _ in range(2)]
    if not all(map(isfinite, losses)) or losses[0] == losses[1]:
        raise ValueError(f"losses: found {losses}; allowed: finite ones that change")


def _learner(item: Workload, batch_size: int, on: Device) -> tuple[GraphLearner, DeviceExecutable]:
    executables: list[DeviceExecutable] = []

    def compiled(graphs: Any) -> DeviceExecutable:
        executables.append(DeviceExecutable(graphs, on))
        return executables[0]

    own = {"backend": on.kind, "device": str(on.number), "batch_size": batch_size, "seed": 0}
    return GraphLearner(algorithm_of(item), compiled, **own), executables[0]  # type: ignore[arg-type]


def _memory(item: Workload, on: Device) -> tuple[DeviceSumTree, DeviceStorage]:
    capacity = item.replay.capacity
    return DeviceSumTree(capacity, item.replay.fanout, np.float32, on), DeviceStorage(
        capacity, columns_of(item), on
    )


def _inserted(item: Workload, insert: Callable[[dict[str, Any]], object]) -> None:
    """Fill a replay with random transitions."""
    rng = np.random.default_rng(0)
    for begin in range(0, item.replay.capacity, CHUNK):
        count, columns = min(CHUNK, item.replay.capacity - begin), {}
        for name, field in columns_of(item).items():
            shape, dtype = (count, *field.shape), np.dtype(field.dtype)
            most = 2 if dtype.kind == "b" else item.environment.action_size
            drawn = rng.uniform(-1, 1, shape) if dtype.kind == "f" else rng.integers(most, size=shape)
            columns[name] = drawn.astype(dtype)
        insert(columns)


def _resident(
    item: Workload, batch_size: int, on: Device, ahead: int = 0
) -> tuple[ResidentPrioritizedReplay, GraphLearner]:
    learner, executable = _learner(item, batch_size, on)
    how = Prioritised(item.replay.alpha, item.replay.beta_initial, item.replay.epsilon)
    stream = None if ahead else executable.stream
    replay = ResidentPrioritizedReplay(*_memory(item, on), batch_size, how, ahead=ahead, stream=stream)
    return replay, learner


def _steps(item: Workload, batch_size: int, on: Device, ahead: int = 0) -> Callable[[int], float]:
    steps = ResidentSteps(*_resident(item, batch_size, on, ahead))
    _inserted(item, steps.insert)

    def take(number: int) -> float:
        steps.run(number)
        return next(iter(steps.losses.values()))

    return take


def _rounds(item: Workload, batch_size: int, on: Device) -> Callable[[int], float]:
    acting = ResidentActing(item.environment.id, range(item.training.actors))
    rounds = ResidentRounds(*_resident(item, batch_size, on), acting)
    rounds.fill(-(-max(batch_size, item.training.learning_starts) // item.training.actors))

    def take(number: int) -> float:
        rounds.run_rounds(number)
        return next(iter(rounds.losses.values()))

    return take


def _iterations(item: Workload, batch_size: int, on: Device) -> Callable[[int], float]:
    learner, _ = _learner(item, batch_size, on)
    iterations = ResidentIterations(learner, item.environment.id, range(item.training.actors))

    def take(number: int) -> float:
        iterations.run(-(-number // iterations.gradient_steps_each))
        return next(iter(iterations.losses.values()))

    return take


def _strict(item: Workload, batch_size: int, on: Device) -> Callable[[int], float]:
    learner, _ = _learner(item, batch_size, on)
    tree, storage = _memory(item, on)
    replay, rng = (
        PrioritizedReplay(
            storage,
            tree,
            alpha=item.replay.alpha,
            beta=item.replay.beta_initial,
            epsilon=item.replay.epsilon,
        ),
        np.random.default_rng(0),
    )
    _inserted(item, replay.insert)
    sample = replay.allocate(batch_size)

    def take(number: int) -> float:
        for _ in range(number):
            drawn = replay.sample(batch_size, rng, out=sample)
            outcome = learner.step(drawn.batch, drawn.weights)
            replay.update_priorities(drawn.indices, outcome.td_errors)
        return next(iter(outcome.losses.values()))

    return take
