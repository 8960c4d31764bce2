"""Times gradient steps with replay that stay on a device, next to the same steps called one by one by the host.

Both use the kernels of one device, so that their ratio is what the host costs. Steps that stay there are timed alone
and, where the device has the workload's environment, in whole rounds. Of PPO, whole iterations are timed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, isfinite, nan
from typing import Any, NamedTuple

import numpy as np

from placerl.harness import workloads
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import HowTimed
from placerl.harness.core.suites import Suite
from placerl.harness.loop.schedule import is_on_policy
from placerl.harness.mapping import Entry, Loop, PerformanceTable, Target
from placerl.harness.mapping import Mapping as Placement
from placerl.harness.mapping.problem import problem_of
from placerl.harness.mapping.strategies.composed_loop import ComposedLoop
from placerl.harness.measure import statistics
from placerl.harness.measure.protocol import Case, Protocol, Timing, measure
from placerl.harness.measure.statistics import FEWEST_SAMPLES
from placerl.harness.pieces.storage import fitted
from placerl.harness.platforms import of_this_machine
from placerl.harness.profile.cases.resident import ResidentParts
from placerl.harness.profile.cases.resident import case as parts_case
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
PREDICTED = "resident round, predicted"
"""What the model of the resident loop makes of the parts of a round, each timed alone in the same rounds as `ROUND`."""
PARTS = "parts of a resident round"
AHEAD = "resident step, 1 batch ahead"
ITERATION = "resident iteration"
STEPS = {ROUND: 64, STEP: 64, AHEAD: 64, STRICT: 8, ITERATION: 64}
"""Gradient steps of a timed call, or more, as it takes whole rounds or iterations; the host waits once for all of a
resident call.
"""
CHUNK = 50_000
"""Items inserted at once."""
ENVIRONMENTS = 4096
"""Environments of PPO, whose samples are learnt from once: the sizes of PufferLib's own CartPole, with B (its
`config/cartpole.ini`), so that their rates can be compared.
"""


class Taken(NamedTuple):
    """What a call took.

    Attributes:
        loss: a loss of the last gradient steps.
        gradient_steps: the gradient steps.
        environment_steps: of PPO, the environment steps, over all environments.
    """

    loss: float
    gradient_steps: int
    environment_steps: int | None = None


Take = Callable[[int], Taken]
"""Takes at least so many gradient steps, and says what it took."""


@dataclass(frozen=True, kw_only=True)
class ResidentStep(BenchResult, table="resident_step"):
    """The time of some gradient steps with replay on a device.

    Attributes:
        gradient_steps: gradient steps of a timed call.
        environment_steps: of PPO, environment steps of a timed call, over all environments.
        error, error_low, error_high: of a predicted rate, predicted / achieved - 1 in the median of the rounds that
            timed both, and its 95% interval.
    """

    gradient_steps: int | None = None
    environment_steps: int | None = None
    error: float | None = None
    error_low: float | None = None
    error_high: float | None = None


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
    on_policy, on = is_on_policy(item), device.create(kind)
    item = widened(item) if on_policy else fitted(item)
    acts = not on_policy and item.environment.id in device_environments.ids()
    parts = [parts_case(PARTS, partial(_parts, item, batch_size, on))] if acts else []
    taken: dict[str, Taken] = {}
    timings = measure(
        [*cases(item, batch_size, on, taken), *parts],
        Protocol(budget_s=budget_s, fewest_rounds=FEWEST_SAMPLES),
        progress=lambda done, total: report(done, total, "interleaved rounds"),
    )
    rows = [
        timing.measurement(
            ResidentStep,
            primitive=name,
            backend=kind,
            device=kind,
            gradient_steps=call.gradient_steps,
            environment_steps=call.environment_steps,
            capacity=item.replay.capacity,
            **fields,
        )
        for name, timing in timings.items()
        if name in STEPS
        for call in (taken.get(name, Taken(nan, 0)),)
    ]
    return [*rows, *(replace(rows[0], **_predicted(item, batch_size, kind, timings, taken)) for _ in parts)]


def _predicted(
    item: Workload,
    batch_size: int,
    kind: str,
    timings: Mapping[str, Timing],
    taken: Mapping[str, Taken],
) -> dict[str, Any]:
    """Return the columns in which the row of the prediction differs from that of the rounds themselves."""
    own = {"primitive": PREDICTED, "provenance": Provenance.MODELLED, "timed": HowTimed(), "samples": ()}
    own |= {"value": None, "low": None, "high": None}
    for name in (PARTS, ROUND):
        if timings[name].status == "failed":
            return own | {"status": "failed", "reason": timings[name].reason}
    parts = {one: _by_round(timings[f"{PARTS}: {one}"]) for one in ("collect", "steps", "runtime")}
    achieved_s, on = _by_round(timings[ROUND]), Target(kind)
    model, here = ComposedLoop(Loop.RESIDENT), of_this_machine()
    problem, mapping = problem_of(item, batch_size), Placement(on, on, on)
    predicted_s = {}
    for number in sorted(set.intersection(*(set(one) for one in (achieved_s, *parts.values())))):
        entries = [
            Entry(f"resident_round.{part}", on, batch_size, seconds, seconds, seconds, Provenance.MEASURED)
            for part, seconds in ((part, by[number]) for part, by in parts.items())
        ]
        rate = model.predict(PerformanceTable(entries), problem, here, mapping).gps
        predicted_s[number] = taken[ROUND].gradient_steps / rate
    ratios = [achieved_s[number] / seconds for number, seconds in predicted_s.items()]
    low, high = statistics.interval(ratios, in_order=True)
    return own | {
        "value": float(np.median([*predicted_s.values()])),
        "error": float(np.median(ratios)) - 1,
        "error_low": low - 1,
        "error_high": high - 1,
        "status": "ok",
        "reason": "",
    }


def _by_round(timing: Timing) -> dict[int, float]:
    """Return seconds by number of the round, as the clock had them: all that ran in a round ran at the same speed."""
    return dict(zip(timing.clock_rounds, timing.clock_s, strict=True))


def cases(item: Workload, batch_size: int, on: Device, taken: dict[str, Taken]) -> Sequence[Case[Take]]:
    """Return the cases to time; each is a function that takes gradient steps.

    Args:
        taken: by the name of a case, what its last timed call took; filled in by the calls.
    """

    def case(name: str, make: Callable[[Workload, int, Device], Take]) -> Case[Take]:
        def call(take: Take, steps: int) -> None:
            taken[name] = take(steps)

        return Case(
            name,
            lambda: make(item, batch_size, on),
            check,
            lambda take, rng: STEPS[name],
            call,
            elsewhere=on.kind != "host",  # whose work is the caller's
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


def check(take: Take) -> None:
    """Raise ValueError if gradient steps do not give a finite loss that changes."""
    losses = [take(4).loss for _ in range(2)]
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


def _steps(item: Workload, batch_size: int, on: Device, ahead: int = 0) -> Take:
    steps = ResidentSteps(*_resident(item, batch_size, on, ahead))
    _inserted(item, steps.insert)

    def take(number: int) -> Taken:
        steps.run(number)
        return Taken(next(iter(steps.losses.values())), number)

    return take


def _parts(item: Workload, batch_size: int, on: Device) -> ResidentParts:
    """Return rounds of the workload's steps, with items to sample."""
    problem, (replay, learner) = problem_of(item, batch_size), _resident(item, batch_size, on)
    shape = problem.round_vector_steps, problem.round_gradient_steps
    acting = ResidentActing(item.environment.id, range(item.training.actors), *shape)
    rounds = ResidentRounds(replay, learner, acting)
    rounds.fill(-(-max(batch_size, item.training.learning_starts) // item.training.actors))
    return ResidentParts(rounds, replay.stream, *shape)


def _rounds(item: Workload, batch_size: int, on: Device) -> Take:
    made = _parts(item, batch_size, on)

    def take(number: int) -> Taken:
        rounds = ceil(number / made.gradient_steps)
        made.rounds.run_rounds(rounds)
        return Taken(next(iter(made.rounds.losses.values())), rounds * made.gradient_steps)

    return take


def _iterations(item: Workload, batch_size: int, on: Device) -> Take:
    learner, _ = _learner(item, batch_size, on)
    iterations = ResidentIterations(learner, item.environment.id, range(item.training.actors))

    def take(number: int) -> Taken:
        before, count = iterations.environment_steps, ceil(number / iterations.gradient_steps_each)
        iterations.run(count)
        loss, steps = next(iter(iterations.losses.values())), count * iterations.gradient_steps_each
        return Taken(loss, steps, iterations.environment_steps - before)

    return take


def _strict(item: Workload, batch_size: int, on: Device) -> Take:
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

    def take(number: int) -> Taken:
        for _ in range(number):
            drawn = replay.sample(batch_size, rng, out=sample)
            outcome = learner.step(drawn.batch, drawn.weights)
            replay.update_priorities(drawn.indices, outcome.td_errors)
        return Taken(next(iter(outcome.losses.values())), number)

    return take
