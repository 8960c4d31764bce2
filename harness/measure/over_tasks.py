"""Aggregates returns over tasks and seeds, with intervals: the figures of rliable.

Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical precipice": the interquartile mean
over the runs of all tasks, the performance profile, and the probability of improvement, each with the interval of a
bootstrap that draws seeds within each task (stratified). Scores are returns on a scale that tasks share, such as 0 for
random actions and 1 for the return at which a task counts as solved. Of fewer than five seeds a bootstrap draws too
few different scores, and its interval is too narrow: then there is none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from placerl.harness.measure.sequential import interquartile_mean
from placerl.harness.measure.statistics import CONFIDENCE, FEWEST_SAMPLES

RESAMPLES = 2000
_SEED = 0
Tasks = Sequence[Sequence[float]]
"""The scores of one system: for each task those of its seeds, at least one."""


@dataclass(frozen=True)
class Interval:
    """A figure with its 95% interval.

    Attributes:
        value: the figure.
        low, high: bounds of the interval; None if a task has fewer runs than `FEWEST_SAMPLES`, which do not say how
            much seeds differ.
    """

    value: float
    low: float | None
    high: float | None


def mean(tasks: Tasks) -> Interval:
    """Return the interquartile mean over all runs."""
    resampled = np.concatenate(_resampled(tasks, np.random.default_rng(_SEED)), axis=1)
    value = interquartile_mean(np.concatenate([*map(np.asarray, tasks)]))
    return _interval(value, interquartile_mean(resampled), tasks)


def profile(tasks: Tasks, scores: npt.ArrayLike) -> list[Interval]:
    """Return the fraction of runs with more than a score, for each of some scores.

    Args:
        scores: (n,) the scores.
    """
    runs = np.concatenate([*map(np.asarray, tasks)])
    resampled = np.concatenate(_resampled(tasks, np.random.default_rng(_SEED)), axis=1)
    return [
        _interval(float(np.mean(runs > score)), np.mean(resampled > score, axis=1), tasks)
        for score in np.asarray(scores)
    ]


def improvement(ours: Tasks, theirs: Tasks) -> Interval:
    """Return the probability that a run of ours has a higher score than one of theirs, in the mean over tasks.

    Equal scores count half.

    Args:
        theirs: of the same tasks, in the same order.
    """
    rng = np.random.default_rng(_SEED)
    pairs = zip(_resampled(ours, rng), _resampled(theirs, rng), strict=True)
    resampled = np.mean([_higher(a, b) for a, b in pairs], axis=0)
    here = [_higher(np.atleast_2d(a), np.atleast_2d(b)) for a, b in zip(ours, theirs, strict=True)]
    return _interval(float(np.mean(here)), resampled, [*ours, *theirs])


def _higher(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return for each of R draws of n and of m scores the fraction of pairs in which the first is higher."""
    difference = a[:, :, None] - b[:, None, :]
    return (np.mean(difference > 0, axis=(1, 2)) + np.mean(difference == 0, axis=(1, 2)) / 2).astype(float)


def _resampled(tasks: Tasks, rng: np.random.Generator) -> list[npt.NDArray[np.float64]]:
    """Return for each task (R, n) scores of as many seeds, drawn with replacement."""
    arrays = [np.asarray(task, float) for task in tasks]
    return [array[rng.integers(len(array), size=(RESAMPLES, len(array)))] for array in arrays]


def _interval(value: float, resampled: npt.NDArray[np.float64], tasks: Tasks) -> Interval:
    if min(map(len, tasks)) < FEWEST_SAMPLES:
        return Interval(float(value), None, None)
    outside = (1 - CONFIDENCE) / 2
    low, high = np.quantile(resampled, [outside, 1 - outside])
    return Interval(float(value), float(low), float(high))
