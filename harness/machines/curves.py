"""Learning curves: after how many gradient steps the trainings of a workload first reached a return.

Gradient steps do not depend on the machine, so that trainings of one machine say how many another one needs. A curve is
of greedy evaluations, as `placerl learn --tier night` and `placerl bench time-to-return` make them, of the return of
every episode (`placerl run`), or of means over tenths of a training (`placerl learn`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from placerl.harness.compare import curves as evaluated_curves
from placerl.harness.compare import learning
from placerl.harness.compare.own_settings import SHIPPED
from placerl.harness.core.errors import NotRunError
from placerl.harness.core.revision import store_path
from placerl.harness.core.row import Row
from placerl.harness.measure.episodes import EPISODES, running_means
from placerl.harness.store import reference
from placerl.harness.store.rows import OURS, LearningCurve, LearningResult, TrainingResult
from placerl.harness.store.store import Store
from placerl.harness.workloads import Workload

_EPISODES, _STRETCHES, _EVALUATIONS = "episode_return", "final_return", evaluated_curves.QUANTITY
"""Quantities of the rows that hold a curve: returns of episodes, means over stretches, and evaluations."""
_BEST, _STEPS_TO_THRESHOLD = "best_return", "environment_steps_to_threshold"
"""Quantities of the rows that say two points of a curve of episodes: its highest mean, and where the threshold is."""


@dataclass(frozen=True)
class Curve:
    """The learning curve of one training, or what is known of it: enough for the return that was asked for.

    Attributes:
        seed: seed of everything random in it.
        length: gradient steps of the training.
        steps: (N,) gradient steps that were done when each mean was reached, ascending.
        means: (N,) mean returns: of `EPISODES` episodes in a row (all, or those that were higher than all before), of a
            stretch of training, or the least of as many evaluations in a row as must hold a return.
    """

    seed: int
    length: int
    steps: npt.NDArray[np.float64]
    means: npt.NDArray[np.float64]

    def steps_to(self, level: float) -> float:
        """Return the gradient steps until a mean first was at least `level`; infinity if none was."""
        there = np.flatnonzero(self.means >= level)
        return float(self.steps[there[0]]) if there.size else inf


@dataclass(frozen=True)
class Curves:
    """The learning curves of a workload, one for each seed, at least one.

    Attributes:
        source: the run that trained them.
    """

    source: str
    curves: tuple[Curve, ...]

    @property
    def longest(self) -> int:
        """Gradient steps of the longest training."""
        return max(one.length for one in self.curves)

    def steps_to(self, level: float) -> list[float]:
        """Return each training's gradient steps until it first reached `level`; infinity for one that never did."""
        return [one.steps_to(level) for one in self.curves]


def load(workload: Workload, batch_size: int, level: float, results: Path | None = None) -> Curves:
    """Return the learning curves of the run that trained most seeds of a workload with its own settings.

    Of several runs with as many seeds the last one counts.

    Args:
        level: the return that is asked for. Trainings are left out that ended because they had reached a lower one, and
            those of which a committed run has too few episodes to say when it was reached.
        results: folder of the store to read; None: the committed reference runs.

    Raises:
        NotRunError: no run trained it; the message names the command that does.
        UserError: the store does not exist or is damaged.
    """
    found = [
        Curves(source, curves)
        for source, rows in _runs(workload.name, results)
        if (curves := of_rows(workload, batch_size, level, rows))
    ]
    if found:
        return max(found, key=lambda one: len(one.curves))  # the first of several, which is the last run
    solved, where = (
        workload.training.solved_return,
        "committed run" if results is None else f"run in {results}",
    )
    lacking = f"which no {where} has for {workload.name} at batch size {batch_size}"
    if solved not in (None, level) and any(
        of_rows(workload, batch_size, solved, rows) for _, rows in _runs(workload.name, results)
    ):
        lacking += (
            f", other than to {solved:g}, which solves it: too few episodes are kept for another return"
        )
    raise NotRunError(
        f"needs a learning curve to {level:g}, {lacking}: "
        f"`placerl run {workload.name} --batch-size {batch_size} --results FOLDER` once with each of several "
        "`--seed`, then `--curves FOLDER`"
    )


def of_rows(workload: Workload, batch_size: int, level: float, rows: Iterable[Row]) -> tuple[Curve, ...]:
    """Return the curves that some rows hold, one for each seed, the last.

    Curves are all of one sort: that with the most seeds, of these evaluations, then the returns of episodes. Rows of a
    schedule with options, such as batches sampled ahead, of a cluster, of a learner in another precision than float32,
    and of settings that were tried are left out, since they may learn otherwise.

    Args:
        level: as for `load`.
    """
    rows = tuple(rows)
    points = _points(rows)
    evaluated: dict[int, Curve] = {}
    episodes: dict[int, Curve] = {}
    stretches: dict[int, Curve] = {}
    for row in rows:
        if row.workload != workload.name or row.batch_size != batch_size or row.value is None:
            continue
        if isinstance(row, TrainingResult) and row.quantity == _EPISODES:
            strict = not row.options and row.cluster is None and row.tried is None
            if strict and _in_floats(row.mapping) and row.seed is not None:
                curve = _of_episodes(workload, row, level, points.get(_training(row), {}))
                episodes |= {row.seed: curve} if curve else {}
        elif isinstance(row, LearningCurve) and row.seed is not None:
            ended_below = row.budget_s is not None and (row.threshold is None or row.threshold < level)
            if (row.system, row.settings_from) == (OURS, SHIPPED) and not ended_below:
                evaluated[row.seed] = _of_evaluations(workload, row)
        elif isinstance(row, LearningResult) and row.quantity == _STRETCHES and row.seed is not None:
            own = row.system.split(" (")[0] in (learning.OURS, learning.OWN_SETTINGS)
            if own and _in_floats(row.system) and row.options == learning.settings_of(workload):
                stretches[row.seed] = _of_stretches(row)
    most = max((evaluated, episodes, stretches), key=len)
    return tuple(curve for _, curve in sorted(most.items()))


def _in_floats(mapping: str) -> bool:
    """Return whether a mapping, or a name that ends with one, has a learner in float32: others state a precision."""
    return "[" not in mapping


def _gradient_steps(
    workload: Workload, row: TrainingResult | LearningCurve, at: Sequence[int]
) -> npt.NDArray[np.float64]:
    """Return the gradient steps that a training had done at some of its environment steps.

    The warm-up with random actions comes before the first gradient step; on-policy there is none.
    """
    assert row.gradient_steps is not None
    assert row.environment_steps is not None
    taken = np.asarray(at, np.float64)
    if workload.algorithm.name == "ppo":
        return taken * row.gradient_steps / row.environment_steps
    left = (row.environment_steps - taken) / workload.training.update_interval
    return np.maximum(0.0, row.gradient_steps - left)


def _of_evaluations(workload: Workload, row: LearningCurve) -> Curve:
    assert row.seed is not None
    returns, hold = np.asarray(row.returns_at or (), np.float64), evaluated_curves.HOLD
    least = (
        np.empty(0) if len(returns) < hold else np.lib.stride_tricks.sliding_window_view(returns, hold).min(1)
    )
    steps = _gradient_steps(workload, row, (row.steps_at or ())[: len(least)])
    return Curve(row.seed, row.gradient_steps or 0, steps, least)


def _training(row: TrainingResult) -> tuple[object, ...]:
    """Return what the rows of one training have in common, and those of two have not."""
    return row.workload, row.batch_size, row.mapping, row.seed, row.environment_steps, row.wall_s


def _points(rows: Iterable[Row]) -> Mapping[tuple[object, ...], Mapping[str, TrainingResult]]:
    """Return the rows that say points of a training's curve, by training and quantity."""
    points: dict[tuple[object, ...], dict[str, TrainingResult]] = {}
    for row in rows:
        if isinstance(row, TrainingResult) and row.quantity in (_BEST, _STEPS_TO_THRESHOLD):
            points.setdefault(_training(row), {})[row.quantity] = row
    return points


def _of_episodes(
    workload: Workload, row: TrainingResult, level: float, points: Mapping[str, TrainingResult]
) -> Curve | None:
    """Return the curve of a training's episodes; None if it is not known when they reached `level`.

    Committed runs that were saved by earlier versions have some of many episodes, and nothing that says where their
    means were highest: then only that no mean was higher than the best one, and when the threshold was reached.
    """
    assert row.seed is not None
    at: Sequence[int]
    means: npt.ArrayLike
    if row.highs is not None:
        at, means = row.high_ends or (), row.highs
    elif "samples_measured" not in row.notes:
        at, means = (row.episode_ends or ())[EPISODES - 1 :], running_means(row.samples)
    else:
        best, reached = points.get(_BEST), points.get(_STEPS_TO_THRESHOLD)
        if best is not None and best.value is not None and best.value < level:
            at, means = (), ()
        elif reached is not None and reached.value is not None and reached.threshold == level:
            at, means = (int(reached.value),), (level,)
        else:
            return None
    steps = _gradient_steps(workload, row, at)
    return Curve(row.seed, row.gradient_steps or 0, steps, np.asarray(means, np.float64))


def _of_stretches(row: LearningResult) -> Curve:
    assert row.seed is not None
    assert row.gradient_steps is not None
    steps = np.asarray(row.steps_by_stretch or (), np.float64)
    means = np.array([np.nan if one is None else one for one in row.mean_returns or ()], np.float64)
    return Curve(row.seed, row.gradient_steps, steps * row.gradient_steps / steps[-1], means)


def _of_trainings(table: pd.DataFrame) -> "pd.Series[bool]":
    quantities = _EPISODES, _STRETCHES, _EVALUATIONS, _BEST, _STEPS_TO_THRESHOLD
    return table["quantity"].isin(quantities) & table["value"].notna()


def _runs(workload: str, results: Path | None) -> Iterator[tuple[str, Sequence[Row]]]:
    """Yield the rows of each run, the last run first, and what the run is called."""
    if results is None:
        committed = reference.load(kept=_of_trainings)
        for one in sorted(committed, key=lambda one: one.run.started_at, reverse=True):
            yield f"committed run {one.name} of {one.run.started_at[:10]}", one.measurements
        return
    path = store_path(results)
    with closing(Store.open(path, read_only=True)) as store:
        for run in reversed(store.runs()):
            yield (
                f"run {run.id} of {path}, {run.started_at[:10]}",
                store.measurements(run=run.id, workload=workload),
            )
