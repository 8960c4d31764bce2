"""Measures what a relaxed training loop costs in reward.

A relaxed loop departs from the strict order of steps, for example by sampling batches ahead. Each variant of the loop
is a curve; a run trains one curve with one seed. Its stored measurement holds the return of every stretch (a
twentieth) of training, including exploration. The runs of one experiment and seed have the same learner and differ
only in the relaxation.

In the tier `night` a training is cut into legs (`harness.papers.legs`), and a workload is trained with further seeds
until its statements are decided (`harness.papers.shares`).

A curve's score is the interquartile mean over seeds of the return at the end of training (the metric of rliable,
Agarwal et al. 2021). Its share is its gain over the first twentieth of training divided by the reference's gain.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from placerl.harness import workloads
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import HowTimed, Row
from placerl.harness.loop.schedule import Schedule
from placerl.harness.mapping import Mapping as Placement
from placerl.harness.measure.conditions import conditions
from placerl.harness.measure.sequential import LOOKS, interquartile_mean
from placerl.harness.measure.statistics import FEWEST_SAMPLES
from placerl.harness.papers import charts
from placerl.harness.papers.cells import TierLimits, row_cell
from placerl.harness.papers.charts import Panel
from placerl.harness.papers.evidence import rows_of
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.papers.legs import SO_FAR, WHOLE, Leg, legs_of
from placerl.harness.papers.legs import cells as legs_cells
from placerl.harness.papers.number import Number
from placerl.harness.papers.shares import Limits, SequentialTrainings, decisions
from placerl.harness.runtime.resolve import resolve
from placerl.harness.runtime.seed_order import last_fifth
from placerl.harness.runtime.training import Training
from placerl.harness.store.cell import Cell
from placerl.harness.store.rows import ClaimRow

STRETCHES = 20
NO_LOSS = 0.9
"""A curve has no visible loss if its share of the gain is at least this, with its whole interval."""
_RESAMPLES = 2000


@dataclass(frozen=True)
class Returns(Columns):
    """Columns of a training's row.

    Attributes:
        curve, options, seed, gradient_steps: the variant of the loop with its options, and the training.
        environment_steps, mean_returns: steps taken at the end of each stretch, and the mean return in it.
    """

    curve: str
    seed: int
    gradient_steps: int
    options: dict[str, Any] | None = None
    environment_steps: list[int] | None = None
    mean_returns: list[float | None] | None = None


@dataclass(frozen=True)
class Curve:
    """One variant of the training loop in an experiment.

    Attributes:
        name: name of the variant, which its stored measurements have as `backend`.
        options: options of its trainings, as keyword arguments of `harness.loop.schedule.Schedule`.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Relaxation:
    """An experiment that compares relaxed variants of the training loop with a reference.

    A relaxed loop departs from the strict order of steps, for example by sampling batches ahead.

    Attributes:
        key: key of the experiment, with which the keys of its cells (pieces of the plan) begin.
        mapping: where learner, replay management and storage run in all trainings, such as "native-native-cpu".
        curves: the variants, the reference first.
        actors: number of environments; None: the workload's own number.
        judged: names of the curves without which a workload is not judged, the reference first; empty for all.
        one_thread: whether a training computes in one thread.
    """

    key: Experiment
    mapping: str
    curves: tuple[Curve, ...]
    actors: int | None = None
    judged: tuple[str, ...] = ()
    one_thread: bool = True

    @property
    def needed(self) -> tuple[Curve, ...]:
        """Return the curves without which a workload is not judged, the reference first."""
        return tuple(curve for curve in self.curves if not self.judged or curve.name in self.judged)


@dataclass(frozen=True)
class RelaxedTask:
    """The workload and the length of an experiment's training runs in one tier (quick, standard or full).

    Attributes:
        experiment: the variants of the training loop to compare.
        workload: name of the workload.
        gradient_steps: those of a training, including the warm-up's.
        step_s: approximate seconds per gradient step, for the plan and the progress bar.
        limits: statements about shares of the gain that end the trainings of a sequential test when they are decided;
            empty if the workload's own seeds are trained, each in one piece.
    """

    experiment: Relaxation
    workload: str
    gradient_steps: int
    step_s: float
    limits: Limits = ()


def train(task: RelaxedTask, curve: Curve, seed: int, leg: Leg, report: Report) -> Row:
    """Train one variant of the training loop with one seed, or a leg of such a training; return the measurement.

    Args:
        leg: the part of the training, in whole stretches; its row holds what the training has shown until its end.

    Returns:
        The mean return of the episodes that ended in the last fifth of training, with these episodes' returns as
        samples (suite `claim`, quantity `final_return`). Columns hold the environment steps and mean return of
        each stretch, a twentieth of training. The status is "failed" if no episode ended in the last fifth.
    """
    item, experiment = workloads.load(task.workload), task.experiment
    if experiment.actors is not None:
        item = workloads.override(item, "training.actors", experiment.actors, curve.name)
    resolved = resolve(Schedule(**curve.options), item, Placement.parse(experiment.mapping))
    begun = leg.begun()
    training = Training(resolved, seed=leg.seed(seed), begun=begun)
    returns: list[list[float]] = list(begun.notes["returns"]) if begun else []
    environment_steps: list[int] = list(begun.notes["environment_steps"]) if begun else []
    try:
        if not begun:
            training.warm_up()
        while training.gradient_steps < leg.until(task.gradient_steps):
            report(
                training.gradient_steps, task.gradient_steps, f"{task.workload}, {curve.name}, seed {seed}"
            )
            progress = training.advance(max(1, task.gradient_steps // STRETCHES))
            returns.append([episode.episode_return for episode in progress.episodes])
            environment_steps.append(training.environment_steps)
        if not leg.is_last:
            leg.save(training, {"returns": returns, "environment_steps": environment_steps})
    finally:
        training.close()
    last = tuple(value for ended in last_fifth(returns) for value in ended)
    row = partial(
        experiment.key.row,
        Returns(
            curve.name,
            seed,
            training.gradient_steps,
            curve.options,
            environment_steps,
            [float(np.mean(ended)) if ended else None for ended in returns],
        ),
        workload=task.workload,
        primitive="training",
        backend=curve.name,
        device=experiment.mapping,
        batch_size=item.training.batch_size,
        quantity="final_return" if leg.is_last else SO_FAR,
        provenance=Provenance.MEASURED,
        timed=HowTimed(conditions=conditions()),
    )
    if not leg.is_last:  # the whole returns are those of the last leg
        return row(value=float(np.mean(last))) if last else row(status="too_noisy", reason="no episode ended")
    if not last:
        return row(status="failed", reason="no episode ended in the last fifth of training")
    return row(value=float(np.mean(last)), samples=last)


def cells(tasks: Mapping[str, Iterable[RelaxedTask]], tier: TierLimits) -> list[Cell]:
    """Return the cells (pieces of the plan) that train, one per training run.

    They are ordered by task, then by seed, then by variant of the training loop.
    """
    tested = [task for task in tasks.get(tier.name, ()) if task.limits]
    return [cell for task in tested for cell in _tested_cells(task)] + [
        row_cell(
            f"{task.experiment.key}/{task.workload}/{curve.name}/seed{seed}",
            task.gradient_steps * task.step_s,
            partial(train, task, curve, seed, WHOLE),
        )
        for task in tasks.get(tier.name, ())
        if not task.limits
        for seed in workloads.load(task.workload).training.seeds
        for curve in task.experiment.curves
    ]


def _tested_cells(task: RelaxedTask) -> list[Cell]:
    """Return the cells of the legs of a task's trainings, with as many seeds as its sequential test uses at most."""
    seconds, experiment = task.gradient_steps * task.step_s, task.experiment
    legs = legs_of(seconds, STRETCHES)

    def first(row: ClaimRow, columns: Returns) -> float | None:
        return _first_return(columns) if columns.gradient_steps >= task.gradient_steps else None

    names = tuple(curve.name for curve in experiment.needed)
    tested = SequentialTrainings((experiment.key,), "final_return", task.workload, names, task.limits, first)
    return [
        cell
        for position, curve in product(range(LOOKS[-1]), experiment.needed)
        for cell in legs_cells(
            f"{experiment.key}/{task.workload}/{curve.name}/seed{position}",
            legs,
            seconds,
            partial(train, task, curve, position),
            position=position,
            moot=tested.ended,
            one_thread=experiment.one_thread,
        )
    ]


Runs = dict[str, dict[int, Any]]
"""The rows of one workload, by curve and seed."""


def runs_of(frame: pd.DataFrame, experiment: Relaxation) -> dict[str, Runs]:
    """Return the stored trainings of an experiment, for the workloads in which every variant of the loop was trained.

    Only trainings with the same number of gradient steps are compared. If a store holds several lengths, the longest
    one that is complete is returned.

    Returns:
        For each workload, the rows by name of the variant and by seed, only with seeds that all variants have that are
        judged (`Relaxation.needed`).
        Workloads with fewer than `FEWEST_SAMPLES` such seeds are left out.
    """
    names = [curve.name for curve in experiment.needed]
    # Rows of earlier versions do not state their length.
    rows = [
        (row.parameters.gradient_steps or 0, row) for row in rows_of(frame, experiment.key, "final_return")
    ]
    complete = complete_runs(rows, names)
    ordered = [curve.name for curve in experiment.curves]
    return {
        workload: {name: runs[name] for name in ordered if name in runs}
        for workload, runs in complete.items()
    }


def complete_runs(
    rows: Iterable[tuple[int, Any]], curves: Sequence[str], fewest: int = FEWEST_SAMPLES
) -> dict[str, Runs]:
    """Return, for each workload, the longest trainings of the same length of which each curve has several seeds.

    Shorter ones are returned if the longer ones have too few seeds for an interval, and fewer than the shorter.

    Args:
        rows: trainings, each after its length.
        curves: the curves that a workload needs; rows of others are returned for the seeds that all of these have.
        fewest: fewest seeds of the shortest trainings.
    """
    by_workload: dict[str, dict[int, Runs]] = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    for length, row in rows:
        by_workload[row.workload][length][row.backend][row.parameters.seed] = row
    complete: dict[str, Runs] = {}
    for workload, lengths in by_workload.items():
        for _, some in sorted(lengths.items()):
            seeds = set.intersection(*(set(some.get(curve, {})) for curve in curves))
            shorter = len(complete[workload][curves[0]]) if workload in complete else 0
            if len(seeds) >= min(FEWEST_SAMPLES, max(fewest, shorter)):
                complete[workload] = {
                    curve: {seed: of[seed] for seed in sorted(seeds) if seed in of}
                    for curve, of in some.items()
                }
    return complete


def scores_of(rows: dict[int, Any]) -> npt.NDArray:
    """Return the returns at the end of training, one per seed."""
    return np.array([row.value for row in rows.values()])


def _first(rows: dict[int, Any]) -> npt.NDArray:
    """Return the returns at the beginning of training, one per seed."""
    return np.array([_first_return(row.parameters) for row in rows.values()])


def _first_return(columns: Returns) -> float:
    return next(value for value in columns.mean_returns or () if value is not None)


def share_of_gain(
    curve: npt.NDArray, reference: npt.NDArray, first: npt.NDArray
) -> tuple[float, float, float] | None:
    """Return a variant's share of the reference's gain in return, and the bounds of its 95% interval.

    A gain is the difference between the interquartile means at the end and at the beginning of training. The interval
    is a bootstrap over seeds.

    Args:
        curve, reference: returns of the variant and of the reference at the end of training, one per seed.
        first: the reference's returns at the beginning of training, one per seed.

    Returns:
        Share, lower and upper bound; None if the reference may have no gain at all.
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
    """Return each variant's share of the reference's gain in return, by the variant's name.

    The reference itself is left out.

    Returns:
        The shares; None for each variant if the reference may have no gain at all (`share_of_gain`).
    """
    first, scores = _first(runs[reference]), scores_of(runs[reference])
    by_curve: dict[str, Number | None] = {}
    for curve, rows in runs.items():
        if curve == reference:
            continue
        share = share_of_gain(scores_of(rows), scores, first)
        labels = tuple(sorted(int(row.Index) for row in (*rows.values(), *runs[reference].values())))
        words = f"{name}, {curve}: share of the reward gained by {reference}"
        source = f"interquartile means of {len(rows)} seeds, bootstrap over seeds"
        by_curve[curve] = share and Number(
            words, share[0], "ratio", Provenance.MEASURED, source, *share[1:], labels
        )
    return by_curve


def seeds_to_tell(curve: npt.NDArray, reference: npt.NDArray) -> int | None:
    """Return how many seeds a test would need to tell two variants of the loop apart, if they differ as much as here.

    This is the size of two normal samples whose means differ as these returns' do, so that a test at 5% finds the
    difference in 80% of the experiments: 2 (1.96 + 0.84)^2 (s / d)^2, with s^2 the mean of the two variances and d
    the difference of the means.

    Args:
        curve, reference: returns of the two at the end of training, one per seed, at least two.

    Returns:
        Seeds of each variant, at least 2; None if the means are equal.
    """
    difference = float(np.mean(curve) - np.mean(reference))
    variance = float(np.var(curve, ddof=1) + np.var(reference, ddof=1)) / 2
    if difference == 0:
        return None
    return max(2, math.ceil(2 * (1.96 + 0.84) ** 2 * variance / difference**2))


def above_limits(runs: Runs, reference: str, limits: Limits) -> dict[str, bool | None]:
    """Return, by its name, whether each variant's share of the reference's gain in return is above its limit.

    It is None if the sequential test (`harness.papers.shares`) has not decided that.
    """
    finals = {curve: scores_of(rows).tolist() for curve, rows in runs.items()}
    decided = decisions(limits, reference, _first(runs[reference]).tolist(), finals)
    return {curve: decision.above for (curve, _), decision in decided.items()}


def panels(frame: pd.DataFrame, experiment: Relaxation) -> list[Panel]:
    """Return one panel of learning curves per workload: the mean return over environment steps.

    A point is the interquartile mean over seeds of the mean return in a stretch (a twentieth) of training; its
    interval spans the seeds' quartiles.
    """
    return [
        Panel(
            "environment steps",
            "mean return",
            [charts.line(curve, _learning_curve(rows)) for curve, rows in runs.items()],
            name,
        )
        for name, runs in runs_of(frame, experiment).items()
    ]


def _learning_curve(rows: dict[int, Any]) -> list[tuple[float, Number]]:
    steps = [row.parameters.environment_steps or () for row in rows.values()]  # earlier rows have none
    returns = [row.parameters.mean_returns for row in rows.values()]
    labels = tuple(sorted(int(row.Index) for row in rows.values()))
    points = []
    for stretch in range(min(map(len, (*steps, *returns)))):
        ended = np.array([each[stretch] for each in returns if each[stretch] is not None])
        if ended.size == len(returns):
            low, high = np.quantile(ended, [0.25, 0.75])
            value = float(interquartile_mean(ended))
            place = float(np.mean([each[stretch] for each in steps]))
            name, source = "mean return", f"{ended.size} seeds"
            mean = Number(name, value, "1", Provenance.MEASURED, source, float(low), float(high), labels)
            points.append((place, mean))
    return points
