"""What a relaxed training loop costs in reward: its runs, and the share of the reward that it keeps.

One run is a curve and a seed; its row holds the return of every stretch of training, exploration included. The runs of
one experiment and seed have the same learner, and differ in the relaxation alone.

A curve's score is the interquartile mean over seeds of the return at the end of training (the metric of rliable,
Agarwal et al. 2021); its share is what it gains over the first twentieth of training, of what the reference gains.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import trim_mean

from harness import workloads
from harness.core.progress import Report
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.mapping import Mapping
from harness.measure.conditions import conditions
from harness.measure.statistics import FEWEST_SAMPLES
from harness.papers.cells import row_cell
from harness.papers.evidence import detail, records, select
from harness.papers.number import Number
from harness.runtime.seed_order import last_fifth
from harness.runtime.training import Training
from harness.store.cell import Cell

STRETCHES = 20
NO_LOSS = 0.9
"""A curve whose share's whole interval is at least this loses nothing that a plot would show."""
_RESAMPLES = 2000


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


def cells(tasks: Iterable[Task]) -> list[Cell]:
    """A cell for each training run; seeds outside, curves inside."""
    return [
        row_cell(
            f"{task.experiment.key}/{task.workload}/{curve.name}/seed{seed}",
            task.gradient_steps * task.step_s,
            partial(train, task.workload, task.gradient_steps, task.experiment, curve, seed),
        )
        for task in tasks
        for seed in workloads.load(task.workload).training.seeds
        for curve in task.experiment.curves
    ]


Runs = dict[str, dict[int, Any]]
"""Rows of one workload by curve and seed."""


def runs_of(frame: pd.DataFrame, experiment: Experiment) -> dict[str, Runs]:
    """Return the rows by workload, where every curve was trained: of the seeds that all curves have."""
    found: dict[str, Runs] = defaultdict(lambda: defaultdict(dict))
    for row in records(select(frame, suite="claim", quantity="final_return")):
        if detail(row, "experiment") == experiment.key:
            found[row.workload][row.backend][int(detail(row, "seed"))] = row
    names = [curve.name for curve in experiment.curves]
    complete = {}
    for workload, curves in found.items():
        seeds = set.intersection(*(set(curves.get(name, {})) for name in names))
        if len(seeds) >= FEWEST_SAMPLES:
            complete[workload] = {
                name: {seed: curves[name][seed] for seed in sorted(seeds)} for name in names
            }
    return complete


def interquartile_mean(scores: npt.NDArray) -> Any:
    """Return the mean of the middle half of scores along the last axis."""
    return trim_mean(scores, 0.25, axis=-1)


def scores_of(rows: dict[int, Any]) -> npt.NDArray:
    """Return the return at the end of training, a seed each."""
    return np.array([row.value for row in rows.values()])


def _first(rows: dict[int, Any]) -> npt.NDArray:
    """The return at the beginning of training, a seed each."""
    return np.array([next(x for x in detail(row, "mean_returns") if x is not None) for row in rows.values()])


def share_of_gain(
    curve: npt.NDArray, reference: npt.NDArray, first: npt.NDArray
) -> tuple[float, float, float] | None:
    """Return a curve's share of the reference's gain, and its 95% interval.

    None where the reference may not gain at all.
    """
    rng = np.random.default_rng(0)

    def resampled(scores: npt.NDArray) -> Any:
        return interquartile_mean(rng.choice(scores, (_RESAMPLES, len(scores))))

    begin = resampled(first)
    gain = resampled(reference) - begin
    if np.quantile(gain, 0.025) <= 0:
        return None
    low, high = np.quantile((resampled(curve) - begin) / gain, [0.025, 0.975])
    value = (interquartile_mean(curve) - interquartile_mean(first)) / (
        interquartile_mean(reference) - interquartile_mean(first)
    )
    return float(value), float(low), float(high)


def shares(name: str, runs: Runs, reference: str) -> dict[str, Number | None]:
    """Return the share of every curve but the reference; None as `share_of_gain`.

    Args:
        name: the workload's.
        runs: its rows.
        reference: name of the curve that the others are compared with.
    """
    first, scores = _first(runs[reference]), scores_of(runs[reference])
    made: dict[str, Number | None] = {}
    for curve, rows in runs.items():
        if curve == reference:
            continue
        found = share_of_gain(scores_of(rows), scores, first)
        labels = tuple(sorted(int(row.Index) for row in (*rows.values(), *runs[reference].values())))
        words = f"{name}, {curve}: share of the reward gained by {reference}"
        source = f"interquartile means of {len(rows)} seeds, bootstrap over seeds"
        made[curve] = found and Number(
            words, found[0], "ratio", Provenance.MEASURED, source, *found[1:], labels
        )
    return made


def keeps(share: Number | None) -> bool | None:
    """Return whether a curve loses nothing that shows; None where the seeds cannot tell."""
    if share is None or share.low is None or share.high is None:
        return None
    return True if share.low >= NO_LOSS else False if share.high < NO_LOSS else None
