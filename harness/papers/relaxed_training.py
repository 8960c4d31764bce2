"""Reward over training with batches sampled ahead, and with actors re-allocated (MAP VII-B, Fig. 10; PRL 3.3.1).

One run is a curve and a seed; its row holds the return of every stretch of training, exploration included. The runs of
one experiment and seed have the same learner, and differ in the relaxation alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from harness import workloads
from harness.core.progress import Report
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.mapping import Mapping
from harness.measure.conditions import conditions
from harness.runtime.seed_order import last_fifth
from harness.runtime.training import Training

STRETCHES = 20


@dataclass(frozen=True)
class Curve:
    """What differs from the other curves of its experiment.

    Attributes:
        name: in the row's `backend`.
        options: arguments of `Training`.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """Curves that are compared with the first of them.

    Attributes:
        key: of its cells and rows.
        mapping: what runs where, in all its runs.
        curves: what is compared, the reference first.
        actors: environments; the workload's own number where None.
    """

    key: str
    mapping: str
    curves: tuple[Curve, ...]
    actors: int | None = None


PRESAMPLED = Experiment(
    "MAP-F10",
    "native-native-cpu",
    tuple(Curve(f"D={ahead}", {"presampled_batches": ahead}) for ahead in (0, 1, 10, 50, 200)),
)
REALLOCATED = Experiment(
    "PRL-F9",
    "torch-native-cpu",
    (
        Curve("two actors", {"overlap": 16, "processes": 2}),
        Curve("re-allocated", {"overlap": 16, "processes": 2, "reallocate": True}),
    ),
    actors=2,
)


@dataclass(frozen=True)
class Task:
    """One size of an experiment's training runs.

    Attributes:
        experiment: whose curves.
        workload: its name.
        gradient_steps: of each run.
        step_s: rough seconds of a gradient step, for the plan and the bar.
    """

    experiment: Experiment
    workload: str
    gradient_steps: int
    step_s: float


TASKS = {
    "quick": (Task(PRESAMPLED, "cartpole-ddpg", 6_000, 1e-4),),
    "standard": (
        Task(PRESAMPLED, "cartpole-ddpg", 20_000, 1e-4),
        Task(PRESAMPLED, "hopper-ddpg", 8_000, 5e-3),
        Task(REALLOCATED, "cartpole-ddpg", 6_000, 3e-3),
        Task(REALLOCATED, "hopper-ddpg", 4_000, 1e-2),
    ),
    "full": (
        Task(PRESAMPLED, "cartpole-ddpg", 20_000, 1e-4),
        Task(REALLOCATED, "cartpole-ddpg", 20_000, 3e-3),
        Task(PRESAMPLED, "hopper-ddpg", 1_000_000, 5e-3),
        Task(REALLOCATED, "hopper-ddpg", 1_000_000, 1e-2),
        Task(PRESAMPLED, "pong-dqn", 1_000_000, 3e-2),
        Task(REALLOCATED, "pong-dqn", 1_000_000, 3e-2),
    ),
}
"""By tier. The quick tier leaves out re-allocation: starting the actors' processes takes longer than the runs."""


def train(
    name: str, gradient_steps: int, experiment: Experiment, curve: Curve, seed: int, report: Report
) -> Measurement:
    """One training run.

    Args:
        name: the workload's.
        gradient_steps: of the run, the warm-up's included.
        experiment, curve: how it is run.
        seed: of everything random.
        report: called with the gradient steps taken.

    Returns:
        A row of suite `claim`, quantity `final_return`: the mean return of the episodes that ended in the last
        fifth, these as samples, and in the details the environment steps and mean return of each stretch.
        Without such an episode the row has failed.
    """
    item = workloads.load(name)
    if experiment.actors is not None:
        item = workloads.override(item, "training.actors", experiment.actors, curve.name)
    training = Training(item, Mapping.parse(experiment.mapping), seed=seed, **curve.options)
    returns: list[list[float]] = []
    environment_steps: list[int] = []
    try:
        training.warm_up()
        while training.gradient_steps < gradient_steps:
            report(training.gradient_steps, gradient_steps, f"{name}, {curve.name}, seed {seed}")
            progress = training.advance(max(1, gradient_steps // STRETCHES))
            returns.append([episode.episode_return for episode in progress.episodes])
            environment_steps.append(training.environment_steps)
    finally:
        training.close()
    last = tuple(value for ended in last_fifth(returns) for value in ended)
    row = partial(
        Measurement,
        suite="claim",
        workload=name,
        primitive="training",
        backend=curve.name,
        device=experiment.mapping,
        batch_size=item.training.batch_size,
        quantity="final_return",
        unit="1",
        provenance=Provenance.MEASURED,
        details={
            "experiment": experiment.key,
            "curve": curve.name,
            "options": curve.options,
            "seed": seed,
            "gradient_steps": training.gradient_steps,
            "environment_steps": environment_steps,
            "mean_returns": [float(np.mean(ended)) if ended else None for ended in returns],
            "conditions": conditions(),
        },
    )
    if not last:
        return row(status="failed", reason="no episode ended in the last fifth of training")
    return row(value=float(np.mean(last)), samples=last)


def experiments(tier: str) -> Iterator[tuple[str, float, Callable[[Report], Measurement]]]:
    """Key, rough seconds and the run itself of each training run of a tier; seeds outside, curves inside."""
    for task in TASKS[tier]:
        for seed in workloads.load(task.workload).training.seeds:
            for curve in task.experiment.curves:
                key = f"{task.experiment.key}/{task.workload}/{curve.name}/seed{seed}"
                run = partial(train, task.workload, task.gradient_steps, task.experiment, curve, seed)
                yield key, task.gradient_steps * task.step_s, run
