"""Reward over training in fixed point and in floats, on the same start, data seeds and evaluations (FIX VI-C, Fig. 7).

A run is a workload, a curve (one of `CURVES`) and a seed; its row holds the mean return of each evaluation: greedy
episodes from `STARTS` random starts, every `evaluation_interval` steps. All curves of a seed start from the same
network and draw from the same streams. FIX leaves the delay and the split of integer and fraction bits open; here the
delay is a share of the run, and `sweep` tries others of both.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from harness import environments, workloads
from harness.core.progress import Report
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.measure.conditions import conditions
from harness.papers.cells import Tier, row_cell
from harness.runtime.actors.actor import Actor
from harness.runtime.seed_order import interleaved, last_fifth
from harness.store.cell import Cell
from harness.workloads import Workload
from harness.workloads.task import algorithm_of, columns_of
from primitives import learner
from primitives.learner import Learner
from primitives.learner.aware_training import FixedPointLearner
from primitives.quantization import Q, precision
from primitives.quantization.precision import FLOAT_32, Precision
from primitives.replay import Storage, UniformReplay

EXPERIMENT, SWEEP = "FIX-F7", "FIX-F7-sweep"
STARTS = 10  # FIX VI-B
FLOAT, FIXED_32, FIXED_16, DYNAMIC = "float 32", "fixed 32", "fixed 16", "dynamic"
QUARL = "8-bit weights and activations"
DELAY_SHARE = 0.5
_UNITS_OF_PROGRESS = 100


@dataclass(frozen=True)
class Task:
    """One training run's size.

    Attributes:
        workload: its name.
        steps: environment steps after `learning_starts`, a gradient step each.
        evaluation_interval: steps between evaluations.
        step_s: rough seconds of a step, for the bar.
    """

    workload: str
    steps: int
    evaluation_interval: int
    step_s: float = 7.5e-3

    @property
    def delay(self) -> int:
        """d of Algorithm 1, in gradient steps."""
        return int(self.steps * DELAY_SHARE)


_MUJOCO = ("halfcheetah-ddpg", "hopper-ddpg-400-300", "swimmer-ddpg")
TASKS: dict[str, tuple[Task, ...]] = {
    "standard": (Task("halfcheetah-ddpg", 12_000, 1_000),),
    "full": tuple(Task(name, 1_000_000, 5_000) for name in _MUJOCO),
}
SWEPT, SWEPT_SEED = Task("pendulum-ddpg", 8_000, 500, 1.2e-3), 0
SEEDS = {"standard": 3, "full": 5}

Curve = Callable[[Task], Precision | None]
CURVES: dict[str, Curve] = {
    FLOAT: lambda task: None,
    FIXED_32: lambda task: precision.fixed_32(),
    FIXED_16: lambda task: precision.fixed_16(),
    DYNAMIC: lambda task: precision.dynamic(task.delay),
    QUARL: lambda task: precision.quarl(task.delay),
}
"""Fig. 7's four curves, and QuaRL's."""


def make_learner(item: Workload, formats: Precision | None, batch_size: int, seed: int) -> Learner:
    """The native learner in floats, or in fixed point with these formats."""
    chosen = FLOAT_32 if formats is None else formats
    return learner.create(
        algorithm_of(item), backend="native", batch_size=batch_size, seed=seed, precision=chosen
    )


class Trial:
    """One training run, step by step.

    Args:
        item: the workload; its replay is sampled uniformly, as FIX's is.
        made: the learner.
        seed: of everything random but the learner.

    Attributes:
        learner: the learner.
        environment_s, learner_s: seconds spent so far in the environment, and in gradient steps.
    """

    def __init__(self, item: Workload, made: Learner, seed: int) -> None:
        streams = np.random.SeedSequence(seed).spawn(4)
        start, self._evaluation_seed = (int(stream.generate_state(1)[0] >> 1) for stream in streams[:2])
        fields = columns_of(item)
        self._item, self.learner = item, made
        self._rng = np.random.default_rng(streams[2])
        self._actor = Actor(
            [environments.make(item.environment, start)],
            np.random.default_rng(streams[3]),
            fields,
            item.training.learning_starts,
        )
        self._replay = UniformReplay(Storage(item.replay.capacity, fields))
        self._evaluation = environments.make(item.environment, self._evaluation_seed)
        self._replay.insert(self._actor.collect(item.training.learning_starts, None))
        self.learner_s = self.sample_s = 0.0
        self._sample: Any = None

    @property
    def environment_s(self) -> float:
        """Seconds spent so far in the environment."""
        return self._actor.environment_s

    @property
    def inference_s(self) -> float:
        """Seconds spent so far in choosing actions."""
        return self._actor.inference_s

    def step(self) -> None:
        """One environment step and one gradient step."""
        self._replay.insert(self._actor.collect(1, self.learner.explore))
        began_s = perf_counter()
        self._sample = self._replay.sample(self.learner.batch_size, self._rng, out=self._sample)
        sampled_s = perf_counter()
        self.learner.step(self._sample.batch, self._sample.weights)
        self.learner_s += perf_counter() - sampled_s
        self.sample_s += sampled_s - began_s

    def evaluate(self, starts: int = STARTS) -> float:
        """The mean return of greedy episodes, from the same random starts each time."""
        space: Any = self._evaluation.action_space
        half = (space.high - space.low) / 2
        returns = []
        for number in range(starts):
            observation, _ = self._evaluation.reset(seed=self._evaluation_seed % 2**30 + number)
            total, over = 0.0, False
            while not over:
                action = self.learner.act(np.asarray(observation, np.float32))
                observation, reward, terminated, truncated, _ = self._evaluation.step(
                    space.low + (action + 1) * half
                )
                total += float(reward)
                over = terminated or truncated
            returns.append(total)
        return float(np.mean(returns))

    def close(self) -> None:
        """Close the environments."""
        self._actor.close()
        self._evaluation.close()


def train(
    task: Task,
    curve: str,
    formats: Precision | None,
    seed: int,
    report: Report,
    *,
    experiment: str = EXPERIMENT,
) -> Measurement:
    """One training run.

    Args:
        task: its size.
        curve: what to call it, for the row's `backend`.
        formats: in fixed point with these; None for floats.
        seed: of everything random.
        report: called with the progress.
        experiment: what the row belongs to.

    Returns:
        A row of suite `claim`: the mean return of the last fifth of the evaluations, all of them as samples.

    Raises:
        ValueError: a delay beyond the run.
    """
    if formats is not None:
        formats.check_run(task.steps)
    item = workloads.load(task.workload)
    made = make_learner(item, formats, item.training.batch_size, seed)
    trial = Trial(item, made, seed)
    returns, wall_s = [trial.evaluate()], 0.0
    try:
        for step in range(1, task.steps + 1):
            began_s = perf_counter()
            trial.step()
            wall_s += perf_counter() - began_s
            if step % (task.steps // _UNITS_OF_PROGRESS or 1) == 0:
                report(step, task.steps, f"{task.workload}, {curve}, seed {seed}")
            if step % task.evaluation_interval == 0:
                returns.append(trial.evaluate())
    finally:
        trial.close()
    saturated = made.saturated if isinstance(made, FixedPointLearner) else {}
    details = {
        "experiment": experiment,
        "curve": curve,
        "seed": seed,
        "steps": task.steps,
        "evaluation_interval": task.evaluation_interval,
        "starts": STARTS,
        "delay": formats.delay if formats else 0,
        "formats": described(formats),
        "saturated": saturated,
        "wall_s": wall_s,  # of training alone, without the evaluations
        "conditions": conditions(),
    }
    return Measurement(
        suite="claim",
        workload=task.workload,
        primitive="training",
        backend=curve,
        device="cpu",
        batch_size=item.training.batch_size,
        quantity="evaluation_return",
        provenance=Provenance.MEASURED,
        value=float(np.mean(last_fifth(returns[1:]))),
        samples=tuple(returns),
        details=details,
    )


def described(formats: Precision | None) -> dict[str, Any]:
    """A precision for a row's details."""
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


def cells(tier: Tier) -> list[Cell]:
    """A cell for each run. The quick tier has no time for seeds enough."""
    made: list[Cell] = []
    for task in TASKS.get(tier.name, ()):
        seeds = workloads.load(task.workload).training.seeds[: SEEDS[tier.name]]
        for seed, (curve, formats_of) in interleaved(seeds, list(CURVES.items())):
            measure = partial(train, task, curve, formats_of(task), seed)
            made.append(row_cell(_key(EXPERIMENT, task, curve, seed), task.steps * task.step_s, measure))
    for name, formats in sweep(SWEPT).items() if tier.name in TASKS else ():
        measure = partial(train, SWEPT, name, formats, SWEPT_SEED, experiment=SWEEP)
        made.append(row_cell(_key(SWEEP, SWEPT, name, SWEPT_SEED), SWEPT.steps * SWEPT.step_s, measure))
    return made


def _key(experiment: str, task: Task, curve: str, seed: int) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", curve.lower()).strip("-")
    return f"{experiment}/{task.workload}/{name}/seed{seed}"


def sweep(task: Task) -> dict[str, Precision]:
    """What FIX does not give, tried: other delays, other splits of integer and fraction bits, and a fixed-point second
    moment; and 32 and 16 bits from the start, with which they are compared. By name.
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
