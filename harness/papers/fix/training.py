"""Measures the reward of training in fixed point and in floats (FIX VI-C, Fig. 7).

A training has a workload, a curve (a precision, one of `CURVES`) and a seed. Its stored measurement holds the mean
return of each evaluation: greedy episodes from ten random starts, every `evaluation_interval` steps. All curves of a
seed start from the same network and use the same random streams. FIX does not state the delay and the split of
integer and fraction bits; here the delay is a share of the training, and `sweep` tries other values of both.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from placerl.harness import workloads
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import HowTimed, Row
from placerl.harness.loop.schedule import STRICT, Fusion
from placerl.harness.mapping import Mapping as Placement
from placerl.harness.mapping.base import Platform
from placerl.harness.measure.conditions import conditions
from placerl.harness.measure.sequential import LOOKS
from placerl.harness.papers.cells import NIGHT_TIER, TierLimits, row_cell
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.papers.legs import SO_FAR, WHOLE, Leg, legs_of
from placerl.harness.papers.legs import cells as legs_cells
from placerl.harness.papers.shares import Limits, SequentialTrainings
from placerl.harness.runtime.compose import Parts, actors_of, storage_of
from placerl.harness.runtime.evaluation import Evaluation
from placerl.harness.runtime.resolve import resolve
from placerl.harness.runtime.seed_order import interleaved, last_fifth
from placerl.harness.runtime.snapshot import Snapshot
from placerl.harness.runtime.training import WARM_UP_ROWS, Training, links_of_map
from placerl.harness.store.cell import Cell
from placerl.harness.store.rows import ClaimRow
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives import learner
from placerl.primitives.learner import Learner
from placerl.primitives.learner.aware_training import FixedPointLearner
from placerl.primitives.quantization import Q, precision
from placerl.primitives.quantization.precision import FLOAT_32, Precision
from placerl.primitives.replay import UniformReplay

MAPPING = Placement.parse("native-native-cpu")


@dataclass(frozen=True)
class Trained(Columns):
    """Columns of a training's row: its curve, seed and length, its number formats and their saturations."""

    curve: str
    seed: int
    steps: int
    evaluation_interval: int
    delay: int
    formats: dict[str, Any] | None = None
    saturated: dict[str, int] | None = None
    wall_s: float | None = None  # of training alone, without the evaluations
    starts: int = 10  # FIX VI-B


_RETURNS = f"evaluation_return {SO_FAR}"
EXPERIMENT = Experiment("FIX-F7", "training in floats and in fixed point", _RETURNS, Trained)
SWEEP = Experiment("FIX-F7-sweep", "other delays and formats", _RETURNS, Trained)
FLOAT, FIXED_32, FIXED_16, DYNAMIC = "float 32", "fixed 32", "fixed 16", "dynamic"
QUARL = "8-bit weights and activations"
ALIKE = 0.2
"""Largest difference between two curves that reach the same reward, as a share of the float curve's gain.

FIX VI-C calls the curves of floats, of 32 bits and its own alike, "towards 2000"; in Fig. 7 they end up to 0.16 of the
gain apart, and up to 0.22 if its reading errors add up.
"""
TRAINS = 1 - ALIKE
"""A curve counts as training if its share of the float curve's gain is at least this, with its whole interval."""
FAILS = 0.5
"""A curve counts as failing to train if its share of the gain is below this, with its whole interval."""
DELAY_SHARE = 0.5
_UNITS_OF_PROGRESS = 100


@dataclass(frozen=True)
class FixedPointTask:
    """The workload and the length of one training.

    Attributes:
        steps: environment steps after `learning_starts`, with one gradient step each.
        evaluation_interval: steps between evaluations of the policy.
        step_s: approximate seconds per step, for the progress bar.
    """

    workload: str
    steps: int
    evaluation_interval: int
    step_s: float = 7.5e-3

    @property
    def delay(self) -> int:
        """Return the delay d of FIX's Algorithm 1: the gradient steps after which activations become narrower."""
        return int(self.steps * DELAY_SHARE)


_MUJOCO = ("halfcheetah-ddpg", "hopper-ddpg-400-300", "swimmer-ddpg")
TASKS: dict[str, tuple[FixedPointTask, ...]] = {
    "standard": (FixedPointTask("halfcheetah-ddpg", 12_000, 1_000),),
    "full": tuple(FixedPointTask(name, 1_000_000, 5_000) for name in _MUJOCO),
}
NIGHT = FixedPointTask("halfcheetah-ddpg", 1_000_000, 5_000)
"""The run of Fig. 7, on which the tier `night` tries other delays, too."""
_NIGHT_STEP_S = {FLOAT: 3.2e-3, FIXED_16: 3.2e-3}
"""Approximate seconds per step of this task, with its evaluations, where they are not the task's own."""
_LEGS = 20
"""A training of this task has at most so many legs."""
TESTED = (FLOAT, FIXED_32, FIXED_16, DYNAMIC)
"""The curves of Fig. 7, the reference first."""
SWEPT, SWEPT_SEED = FixedPointTask("pendulum-ddpg", 8_000, 500, 1.2e-3), 0
"""The sweep's task and its only seed, in every tier. More seeds would take time and give no verdict: the pendulum also
trains with 16 bits from the start, so that the delay has nothing to make up for.
"""
SEEDS = {"standard": 3, "full": 5}

Curve = Callable[[FixedPointTask], Precision | None]
CURVES: dict[str, Curve] = {
    FLOAT: lambda task: None,
    FIXED_32: lambda task: precision.fixed_32(),
    FIXED_16: lambda task: precision.fixed_16(),
    DYNAMIC: lambda task: precision.dynamic(task.delay),
    QUARL: lambda task: precision.quarl(task.delay),
}
"""The precision of each curve for a task: those of Fig. 7's four curves, and QuaRL's; None is float32."""


def make_learner(item: Workload, formats: Precision | None, batch_size: int, seed: int) -> Learner:
    """Return the native learner of a workload, in floats or in fixed point.

    Args:
        formats: formats of the fixed-point numbers; None for float32.
    """
    chosen = FLOAT_32 if formats is None else formats
    return learner.create(
        algorithm_of(item), backend="native", batch_size=batch_size, seed=seed, precision=chosen
    )


def training_of(
    item: Workload,
    trainee: Learner,
    seed: int,
    mapping: Placement = MAPPING,
    *,
    begun: Snapshot | None = None,
    platform: Callable[[], Platform] = links_of_map,
) -> Training:
    """Return a training of a workload that samples its replay uniformly, as FIX does.

    The replay already holds `learning_starts` steps with random actions.

    Args:
        seed: seed of everything random except the learner: environment, exploration and sampling.
        mapping: where the learner is; the replay is on the host.
        begun: the snapshot of an earlier leg, with which the training continues; None: it begins.
        platform: returns the platform that states the links of a simulated learner.
    """
    streams = _streams(seed)
    storage = storage_of(item, mapping)
    parts = Parts(
        actors=replace(
            actors_of(item, streams.environment, streams.exploration, storage.fields, WARM_UP_ROWS),
            environment_steps=begun.environment_steps if begun else 0,
        ),
        storage=storage,
        replay=UniformReplay(storage),
        learner=trainee,
        rng=np.random.default_rng(streams.sampling),
    )
    resolved = resolve(STRICT, item, mapping, trainee.batch_size, existing=Fusion.NONE)
    training = Training(resolved, parts=parts, platform=platform, begun=begun)
    training.fill()
    return training


class _Streams(NamedTuple):
    """Random generators, in the order in which they are derived from the seed."""

    environment: np.random.SeedSequence
    evaluation: np.random.SeedSequence
    sampling: np.random.SeedSequence
    exploration: np.random.SeedSequence


def _streams(seed: int) -> _Streams:
    return _Streams(*np.random.SeedSequence(seed).spawn(4))


def _evaluation_seed(seed: int) -> int:
    return int(_streams(seed).evaluation.generate_state(1)[0] >> 1)


def train(
    task: FixedPointTask,
    curve: str,
    formats: Precision | None,
    seed: int,
    report: Report,
    *,
    experiment: Experiment = EXPERIMENT,
    leg: Leg = WHOLE,
) -> Row:
    """Train a workload in one precision with one seed, or a leg of such a training; return the measurement.

    Args:
        leg: the part of the training; its row holds what the training has shown until its end.

    Returns:
        The mean return of the last fifth of the evaluations, with all evaluations as samples.

    Raises:
        ValueError: the delay, after which activations become narrower, is longer than the training.
    """
    if formats is not None:
        formats.check_run(task.steps)
    item = workloads.load(task.workload)
    trainee = make_learner(item, formats, item.training.batch_size, seed)
    begun = leg.begun()
    training = training_of(item, trainee, leg.seed(seed), begun=begun)
    evaluation = Evaluation(item, _evaluation_seed(seed))

    def mean_return() -> float:
        return float(np.mean(evaluation.returns(trainee.act, Trained.starts)))

    before: dict[str, Any] = dict(begun.notes) if begun else {"returns": [mean_return()], "wall_s": 0.0}
    returns, wall_s = list(before["returns"]), before["wall_s"]
    try:
        for step in range(training.gradient_steps + 1, leg.until(task.steps) + 1):
            began_s = perf_counter()
            training.take(1)
            wall_s += perf_counter() - began_s
            if step % (task.steps // _UNITS_OF_PROGRESS or 1) == 0:
                report(step, task.steps, f"{task.workload}, {curve}, seed {seed}")
            if step % task.evaluation_interval == 0:
                returns.append(mean_return())
        saturated = Counter(before.get("saturated", {}))
        if isinstance(trainee, FixedPointLearner):
            saturated.update(trainee.saturated)
        if not leg.is_last:
            leg.save(training, {"returns": returns, "wall_s": wall_s, "saturated": saturated})
    finally:
        training.close()
        evaluation.close()
    columns = Trained(
        curve,
        seed,
        task.steps,
        task.evaluation_interval,
        formats.delay if formats else 0,
        described(formats),
        dict(saturated),
        wall_s,
    )
    return experiment.row(
        columns,
        workload=task.workload,
        primitive="training",
        backend=curve,
        device="cpu",
        batch_size=item.training.batch_size,
        quantity="evaluation_return" if leg.is_last else SO_FAR,
        provenance=Provenance.MEASURED,
        value=float(np.mean(last_fifth(returns[1:]))),
        samples=tuple(returns) if leg.is_last else (),
        timed=HowTimed(conditions=conditions()),
    )


def described(formats: Precision | None) -> dict[str, Any]:
    """Return a description of a precision, as rows state it.

    Returns:
        The format as text of "weights", "activations", "gradients" and of Adam's "mean" and "square", and the
        "activation_bits" and "weight_bits" after the delay. For floats only "all", which is "binary32".
    """
    if formats is None:
        return {"all": "binary32"}
    return {
        "weights": str(formats.weights),
        "activations": str(formats.activations),
        "gradients": str(formats.gradients),
        "mean": str(formats.mean or "binary32"),
        "square": str(formats.square or "binary32"),
        "activation_bits": formats.activation_bits,
        "weight_bits": formats.weight_bits,
    }


def cells(tier: TierLimits) -> list[Cell]:
    """Return the cells (pieces of the plan) that train, one per training of Fig. 7's curves.

    There are none in the quick tier, which has no time for enough seeds. In the tier `night` they are those of legs.
    """
    if tier.name == NIGHT_TIER:
        return _tested_cells(EXPERIMENT, {name: CURVES[name](NIGHT) for name in TESTED}, TESTED)
    tier_cells: list[Cell] = []
    for task in TASKS.get(tier.name, ()):
        seeds = workloads.load(task.workload).training.seeds[: SEEDS[tier.name]]
        for seed, (curve, formats_of) in interleaved(seeds, list(CURVES.items())):
            measure = partial(train, task, curve, formats_of(task), seed)
            tier_cells.append(
                row_cell(_key(EXPERIMENT, task, curve, seed), task.steps * task.step_s, measure)
            )
    return tier_cells


def sweep_cells(tier: TierLimits) -> list[Cell]:
    """Return the cells (pieces of the plan) that train, one per training of the sweep; none in the quick tier.

    Those of the tier `night` are the sweep's delays, on the workload of Fig. 7: its cells have 32 and 16 bits.
    """
    if tier.name == NIGHT_TIER:
        delays = {name: formats for name, formats in sweep(NIGHT).items() if name.startswith(DYNAMIC)}
        return _tested_cells(SWEEP, delays, (FIXED_32, FIXED_16, *delays))
    return [
        row_cell(
            _key(SWEEP, SWEPT, name, SWEPT_SEED),
            SWEPT.steps * SWEPT.step_s,
            partial(train, SWEPT, name, formats, SWEPT_SEED, experiment=SWEEP),
        )
        for name, formats in (sweep(SWEPT).items() if tier.name in TASKS else ())
    ]


def shown_by(curves: Iterable[str]) -> Limits:
    """Return the statements that show the claim: 16 bits from the start fail, and every other curve trains."""
    return tuple((curve, FAILS if curve == FIXED_16 else TRAINS) for curve in curves)


def tested(curves: Iterable[str]) -> Limits:
    """Return the statements about some curves that are tested together: those that show the claim or contradict it."""
    contrary = tuple((curve, TRAINS if curve == FIXED_16 else FAILS) for curve in curves)
    return (*shown_by(curves), *contrary)


def _tested_cells(
    experiment: Experiment, trained: Mapping[str, Precision | None], curves: tuple[str, ...]
) -> list[Cell]:
    """Return the cells of the legs of the trainings of a sequential test.

    Args:
        trained: precision of each curve that has cells.
        curves: the curves that are judged together, the reference first.
    """

    def first(row: ClaimRow, columns: Trained) -> float | None:
        return row.samples[0] if columns.steps == NIGHT.steps else None

    others = curves[1:]
    seconds = {curve: NIGHT.steps * _NIGHT_STEP_S.get(curve, NIGHT.step_s) for curve in trained}
    trainings = SequentialTrainings(
        (EXPERIMENT, experiment),
        "evaluation_return",
        NIGHT.workload,
        curves,
        tested(others),
        first,
        ends=shown_by(others),
    )
    return [
        cell
        for seed, (curve, formats) in interleaved(range(LOOKS[-1]), list(trained.items()))
        for cell in legs_cells(
            _key(experiment, NIGHT, curve, seed),
            legs_of(seconds[curve], _LEGS),
            seconds[curve],
            partial(_train_leg, curve, formats, seed, experiment),
            position=seed,
            moot=trainings.ended,
        )
    ]


def _train_leg(
    curve: str, formats: Precision | None, seed: int, experiment: Experiment, leg: Leg, report: Report
) -> Row:
    return train(NIGHT, curve, formats, seed, report, experiment=experiment, leg=leg)


def _key(experiment: str, task: FixedPointTask, curve: str, seed: int) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", curve.lower()).strip("-")
    return f"{experiment}/{task.workload}/{name}/seed{seed}"


def sweep(task: FixedPointTask) -> dict[str, Precision]:
    """Return the precisions to try because FIX does not state the delay and the formats.

    They have other delays, other splits of integer and fraction bits, or a fixed-point second moment. 32 and 16 bits
    from the start are included for comparison.

    Args:
        task: the workload and the length of a training; delays are shares of this length.
    """
    base = precision.fixed_32()
    tried: dict[str, Precision] = {FIXED_32: base, FIXED_16: precision.fixed_16()}
    for share in (0.05, 0.25, 0.75):
        tried[f"{DYNAMIC}, d = {share:.0%} of the run"] = precision.dynamic(max(1, int(task.steps * share)))
    fields = {
        "activations": (8, 12, 20),
        "weights": (16, 20, 30),
        "gradients": (16, 20, 28),
        "mean": (24,),
        "square": (30,),
    }
    for field, splits in fields.items():
        for fraction_bits in splits:
            change: dict[str, Any] = {field: Q(32, fraction_bits)}
            tried[f"{FIXED_32}, {field} {change[field]}"] = replace(base, **change)
    return tried
