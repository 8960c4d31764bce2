"""Compares what two systems have learnt after the same number of environment steps.

A comparison of speeds is meaningful only if something is learnt. So both systems of a comparison are trained again,
separately from the timed rounds: from the start, with the same seeds, to the same number of environment steps.
The mean return of the episodes that end in the last fifth of these steps, including exploration, is compared.
Nothing is timed here, so several trainings share the machine's cores.

The interval of a mean comes from a two-stage bootstrap: seeds are drawn with replacement, then the episodes of
each seed. With three seeds the interval is too narrow rather than too wide, so the verdict "learns less" is too
frequent rather than too rare.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from placerl.harness.compare.protocol import FailureKind, Worker, WorkerFailure, WorkerJob, WorkerResult
from placerl.harness.core.progress import Report
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.measure.statistics import CONFIDENCE, FEWEST_SAMPLES, evenly_spread
from placerl.harness.runtime.seed_order import first_fifth, interleaved, last_fifth

FASTER = "faster"
LEARNS_LESS = "faster, but learns less"
NOT_COMPARED = "faster; returns not compared"
"""Verdict of a comparison that found "faster" while the returns are unknown."""

RETURN, DIFFERENCE = "return_at_equal_steps", "return_difference"
"""Quantities of the rows with the results."""
LEAST_STEPS = 2_000
"""Fewest environment steps of a useful training. If the time is too short for them, fewer seeds are trained."""
STRETCHES = 10
JOB_LIMIT_S = 600.0  # some systems compile for the workload before they begin
MOST_LANES = 4  # trainings at the same time; each takes up to half a gigabyte
_RESAMPLES = 2000
_MOST_EPISODES = 500  # episodes of a seed that are resampled; more would take hundreds of megabytes
_BOOTSTRAP_SEED = 0  # the same returns give the same interval


@dataclass(frozen=True)
class StepExtent:
    """The limits of the trainings in which the returns of two systems are compared.

    Attributes:
        environment_steps: most steps of each training, after the warm-up with random actions.
        seeds: most trainings of each system, each with a seed of its own.
        budget_s: seconds that all trainings together should take.
    """

    environment_steps: int
    seeds: int
    budget_s: float


@dataclass(frozen=True)
class ComparedSide:
    """One of the two systems that are compared, with the speed that it had in the timed rounds.

    Attributes:
        name: "placerl" or the baseline's name.
        start: function that starts its worker.
        start_s: seconds from the start to the end of its warm-up.
        environment_steps_per_s: environment steps per second of training.
        environment_steps_a_gradient_step: environment steps per gradient step.
    """

    name: str
    start: Callable[[], Worker]
    start_s: float
    environment_steps_per_s: float
    environment_steps_a_gradient_step: float

    @staticmethod
    def of(
        name: str, start: Callable[[], Worker], start_s: float, results: Sequence[WorkerResult]
    ) -> "ComparedSide":
        """Create the description of a system from the results of its timed rounds, which give its speed.

        Args:
            name: "placerl" or the baseline's name.
            start_s: seconds from the start to the end of its warm-up.
        """
        steps = sum(result.environment_steps for result in results)
        return ComparedSide(
            name,
            start,
            start_s,
            steps / sum(result.wall_s for result in results),
            steps / sum(result.gradient_steps for result in results),
        )


@dataclass(frozen=True)
class Trained:
    """The result of one training.

    Attributes:
        seed: seed of everything random in it.
        environment_steps: steps taken after its warm-up.
        first, last: undiscounted returns of the episodes that ended in the first and in the last fifth of
            training.
    """

    seed: int
    environment_steps: int
    first: tuple[float, ...]
    last: tuple[float, ...]


class Mean(NamedTuple):
    """A mean of returns over seeds, or a difference of two such means, with the bounds of its 95% interval.

    Attributes:
        value: the mean or the difference.
        low, high: bounds of the interval.
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True)
class Returns:
    """The trainings of both systems of a comparison, whose returns are compared.

    Attributes:
        reason: why the returns cannot be compared; empty if they can.
        ours, theirs: the trainings of this project and of the other system, one per seed, with the same seeds; empty
            if none were made.
    """

    reason: str
    ours: tuple[Trained, ...] = ()
    theirs: tuple[Trained, ...] = ()

    @property
    def environment_steps(self) -> int:
        """Return the smallest number of environment steps of a training; every training took at least as many."""
        return min(one.environment_steps for one in (*self.ours, *self.theirs))

    def difference(self) -> Mean:
        """Return this project's mean return minus the other system's; valid only if `reason` is empty."""
        return _difference(_last(self.ours), _last(self.theirs))

    def verdict(self, speed: str) -> str:
        """Return the verdict of a comparison, given the verdict on the speeds alone.

        Only "faster" can change: to `LEARNS_LESS` if this project's returns are lower, beyond their interval, or to
        `NOT_COMPARED` if the returns are unknown.

        Args:
            speed: the verdict on the speeds: "faster", "slower" or "no verdict".
        """
        if speed != FASTER:
            return speed
        if self.reason:
            return NOT_COMPARED
        return LEARNS_LESS if self.difference().high < 0 else FASTER

    def __str__(self) -> str:
        if self.reason:
            return f"returns not compared: {self.reason}"
        return (
            f"mean return after {self.environment_steps:,} environment steps, {_seeds(len(self.ours))} a side: "
            f"ours {mean(self.ours)}, theirs {mean(self.theirs)}, difference {self.difference()}"
        )


def _seeds(number: int) -> str:
    return f"{number} seed{'' if number == 1 else 's'}"


def compare(
    ours: ComparedSide, theirs: ComparedSide, job: WorkerJob, extent: StepExtent, report: Report
) -> Returns:
    """Train both systems from the start, and compare what they learnt.

    Args:
        job: a job of the timed rounds; its seed is the first seed, and its `gradient_steps` are ignored.
        report: called with the number of trainings done.
    """
    for side in (ours, theirs):
        if not side.environment_steps_per_s:
            return Returns(f"{side.name} took no environment steps in the timed rounds")
    lanes = max(1, min(MOST_LANES, len(usable_cores()) // job.threads))
    seeds, steps = planned(ours, theirs, extent, lanes)
    if not seeds:
        return Returns(
            f"{extent.budget_s:g} s hold no training of {LEAST_STEPS:,} environment steps on both sides"
        )
    deadline_s, stop = monotonic() + extent.budget_s, _Stop()

    def task(side: ComparedSide, seed: int) -> Trained | None:
        late = monotonic() > deadline_s and seed > job.seed
        return None if late else _trained(side, job.model_copy(update={"seed": seed}), steps, stop)

    order = list(interleaved(range(job.seed, job.seed + seeds), (ours, theirs)))
    done: list[tuple[ComparedSide, Trained]] = []
    pool = ThreadPoolExecutor(lanes)
    try:
        asked = [(side, pool.submit(task, side, seed)) for seed, side in order]
        for number, (side, future) in enumerate(asked):
            report(number, len(order), f"{side.name} to {steps:,} environment steps")
            if training := future.result():
                done.append((side, training))
    except WorkerFailure as failure:
        return Returns(f"{_failed(asked)}: {failure}")
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)  # waits until the trainings have ended
    both = set.intersection(*({one.seed for side, one in done if side is here} for here in (ours, theirs)))
    mine, others = (
        tuple(one for side, one in done if side is here and one.seed in both) for here in (ours, theirs)
    )
    return judged(ours.name, mine, theirs.name, others)


class _Stop:
    """Ends trainings that run in other threads, also in the middle of a job.

    Attributes:
        workers: every worker that was started; each training adds its own before it looks at `is_set`.
        is_set: whether all trainings must end.
    """

    def __init__(self) -> None:
        self.workers: list[Worker] = []
        self.is_set = False

    def set(self) -> None:
        """Request the end of all trainings."""
        self.is_set = True
        for worker in list(self.workers):
            worker.abort()


def _failed(asked: Sequence[tuple[ComparedSide, "Future[Trained | None]"]]) -> str:
    """Return the name of the first side with a failed training."""
    return next(side.name for side, future in asked if future.done() and future.exception())


def planned(ours: ComparedSide, theirs: ComparedSide, extent: StepExtent, lanes: int) -> tuple[int, int]:
    """Return how many seeds to train, and for how many environment steps each, in the given time.

    The number of seeds is the largest with which every training still has `LEAST_STEPS` steps, or all steps of the
    extent if these are fewer.

    Args:
        lanes: trainings that run at the same time.

    Returns:
        The number of seeds, and the environment steps of each training: those of `extent` or a multiple of 100. (0, 0)
        if the time is too short for one seed.
    """
    start_s = ours.start_s + theirs.start_s
    step_s = 1 / ours.environment_steps_per_s + 1 / theirs.environment_steps_per_s
    for seeds in range(extent.seeds, 0, -1):
        # The two trainings of one seed use at most two lanes.
        left_s = extent.budget_s * min(lanes, 2 * seeds) / seeds - start_s
        steps = min(extent.environment_steps, int(left_s / step_s) // 100 * 100)
        if steps >= min(LEAST_STEPS, extent.environment_steps):
            return seeds, steps
    return 0, 0


def _trained(side: ComparedSide, job: WorkerJob, environment_steps: int, stop: "_Stop") -> Trained:
    """Run a training in its own process, for at least `environment_steps`.

    Raises:
        WorkerFailure: the worker failed, or `stop` is set.
    """
    stretch = environment_steps / STRETCHES / side.environment_steps_a_gradient_step
    job = job.model_copy(update={"gradient_steps": max(1, round(stretch))})
    ended: list[list[float]] = []
    reached = 0
    with side.start() as worker:
        stop.workers.append(worker)
        while reached < environment_steps:
            if stop.is_set:
                raise WorkerFailure(FailureKind.CRASH, "stopped with the other trainings")
            result = worker.ask(job, JOB_LIMIT_S)
            if not result.environment_steps:
                raise WorkerFailure(FailureKind.INVALID, "took no environment steps")
            reached += result.environment_steps
            ended.append(result.episode_returns)
    first, last = (
        tuple(value for returns in part(ended) for value in returns) for part in (first_fifth, last_fifth)
    )
    return Trained(job.seed, reached, first, last)


def judged(our_name: str, ours: Sequence[Trained], their_name: str, theirs: Sequence[Trained]) -> Returns:
    """Return the trainings of both systems, with the reason if their returns cannot be compared.

    They cannot be compared if too few episodes ended in the last fifth of training, if one training took over 10%
    more environment steps than another, or if neither system learnt anything.
    """
    sides = ((our_name, ours), (their_name, theirs))
    reached = [one.environment_steps for _, side in sides for one in side]
    reason = ""
    for name, side in sides:
        ended = sum(len(one.last) for one in side)
        if ended < FEWEST_SAMPLES or not all(one.last for one in side):
            reason = (
                f"{ended} episodes of {name} ended in the last fifth of {min(reached):,} environment steps, "
                f"{_seeds(len(side))}; allowed: {FEWEST_SAMPLES} or more, of every seed one"
            )
    if max(reached) > min(reached) * (1 + 1 / STRETCHES):
        reason = (
            f"a round of one side is too long: {min(reached):,} environment steps against {max(reached):,}"
        )
    if not reason and not any(_rose(side) for _, side in sides):
        reason = (
            f"neither side had learnt anything after {min(reached):,} environment steps: {our_name}'s mean return "
            f"was {mean(ours)}, {their_name}'s {mean(theirs)}, no better than in the first fifth"
        )
    return Returns(reason, tuple(ours), tuple(theirs))


def _rose(side: Sequence[Trained]) -> bool:
    """Whether the returns at the end are higher than at the beginning, by more than their intervals."""
    if not all(one.first for one in side):
        return False
    return _difference(_last(side), [one.first for one in side]).low > 0


def _last(side: Sequence[Trained]) -> list[tuple[float, ...]]:
    return [one.last for one in side]


def mean(side: Sequence[Trained]) -> Mean:
    """Return the mean over seeds of the mean return in the last fifth of training, with its interval.

    Args:
        side: the trainings of one system. In each, an episode must have ended in the last fifth.
    """
    return _interval(
        _mean_of_means(_last(side)), _resampled(_last(side), np.random.default_rng(_BOOTSTRAP_SEED))
    )


def _difference(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> Mean:
    rng = np.random.default_rng(_BOOTSTRAP_SEED)
    return _interval(
        _mean_of_means(ours) - _mean_of_means(theirs), _resampled(ours, rng) - _resampled(theirs, rng)
    )


def _mean_of_means(seeds: Sequence[Sequence[float]]) -> float:
    return float(np.mean([np.mean(returns) for returns in seeds]))


def _interval(value: float, resampled: npt.NDArray[np.float64]) -> Mean:
    outside = (1 - CONFIDENCE) / 2
    low, high = np.quantile(resampled, [outside, 1 - outside])
    return Mean(value, float(low), float(high))


def _resampled(seeds: Sequence[Sequence[float]], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return (_RESAMPLES,) bootstrap means: seeds drawn with replacement, then their episodes with replacement."""
    drawn = rng.integers(len(seeds), size=(_RESAMPLES, len(seeds)))
    means = np.empty(drawn.shape)
    for place, returns in enumerate(seeds):
        some = np.asarray(returns, float)[evenly_spread(len(returns), _MOST_EPISODES)]
        here = drawn == place
        means[here] = rng.choice(some, (int(here.sum()), len(some))).mean(1)
    return means.mean(1)
