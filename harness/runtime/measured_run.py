"""Measures training under a mapping: throughput in stretches, and episode returns over time."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import HowTimed, Interrupted, Row
from placerl.harness.core.suites import Suite
from placerl.harness.loop.schedule import Fusion, is_on_policy
from placerl.harness.mapping.assignments import Assignment
from placerl.harness.mapping.metrics import per_watt
from placerl.harness.measure import statistics
from placerl.harness.measure.conditions import conditions
from placerl.harness.measure.episodes import EPISODES
from placerl.harness.platforms.energy import EnergyMeter, meter_of
from placerl.harness.runtime.actors.actor import Episode
from placerl.harness.runtime.evaluation import LIMIT_S, Act, Evaluation, best_mean, solved
from placerl.harness.runtime.mapped_parts import delay_of
from placerl.harness.runtime.native_iterations import NativeIterations
from placerl.harness.runtime.native_threads import ThreadedTraining
from placerl.harness.runtime.on_policy import OnPolicyTraining
from placerl.harness.runtime.resident_on_policy import ResidentOnPolicy
from placerl.harness.runtime.resident_training import ResidentTraining
from placerl.harness.runtime.resolve import Resolved
from placerl.harness.runtime.simulated_parts import tree_columns
from placerl.harness.runtime.training import Progress, Training
from placerl.harness.store.rows import TrainingResult
from placerl.harness.workloads import Workload

Started = (
    Training | OnPolicyTraining | NativeIterations | ThreadedTraining | ResidentTraining | ResidentOnPolicy
)
# long compared with the clock and one episode's reset, short compared with the machine's drift
STRETCH_S = 0.5


class Trains(Protocol):
    """The interface of a training that can be measured; it may run in this process or on a cluster.

    `warm_up` prepares the training, `advance` takes gradient steps and returns what happened, `greedy` returns the
    present policy without exploration, and `close` ends the training.

    Attributes:
        provenance: provenance of the seconds that it reports, such as measured or simulated.
    """

    @property
    def provenance(self) -> Provenance: ...

    def warm_up(self) -> Progress: ...

    def advance(self, gradient_steps: int) -> Progress: ...

    def greedy(self) -> Act: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Extent:
    """The length of a run, not counting its warm-up.

    Attributes:
        seconds: seconds of training.
        steps: least number of gradient steps; if given, it counts instead of the seconds.
    """

    seconds: float = 30.0
    steps: int | None = None

    def share(self, begun_s: float, gradient_steps: int) -> float:
        """Return the fraction of the run that is done, from 0 at the beginning to 1 or more at the end.

        Args:
            begun_s: reading of `time.perf_counter` when the run began.
            gradient_steps: gradient steps taken since then.
        """
        if self.steps is not None:
            return gradient_steps / self.steps
        return (time.perf_counter() - begun_s) / self.seconds


@dataclass
class _Run:
    """A training in progress, and the data for its rows."""

    resolved: Resolved
    columns: dict[str, Any]
    provenance: Provenance = Provenance.MEASURED
    warm_up: Progress | None = None
    stretches: list[Progress] = field(default_factory=list)
    meter: EnergyMeter | None = None
    watts: list[float | None] = field(default_factory=list)  # by stretch
    evaluated: list[float] | None = None  # returns of greedy episodes after the training

    def rows(self) -> list[TrainingResult]:
        """Return throughput, and what was learnt; empty before the first stretch has ended."""
        rates = [self._throughput(quantity) for quantity in ("gradient_steps", "environment_steps")]
        learnt = (self._evaluation(), self._best(), *self._solved(), self._returns())
        return [row for row in (*rates, self._per_watt(), *learnt) if row]

    def failure(self, error: BaseException) -> TrainingResult:
        """Return the row that reports why the run ended."""
        reason = "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
        return self._row(quantity="failure", status="failed", reason=reason)

    def _row(self, **values: Any) -> TrainingResult:
        return TrainingResult(
            suite=Suite.RUN,
            workload=self.resolved.workload.name,
            primitive="training",
            batch_size=self.resolved.shape.batch_size,
            provenance=self.provenance,
            **self.columns | self._counts() | values,
        )

    @property
    def _whole(self) -> list[Progress]:
        """The whole training: the warm-up, if it has ended, and the stretches."""
        return [*([self.warm_up] if self.warm_up else []), *self.stretches]

    @property
    def _episodes(self) -> list[Episode]:
        return [episode for stretch in self._whole for episode in stretch.episodes]

    def _counts(self) -> dict[str, object]:
        return {
            "gradient_steps": sum(stretch.gradient_steps for stretch in self.stretches),
            "environment_steps": sum(stretch.environment_steps for stretch in self._whole),
            **self._narrowed(),
            "wall_s": sum(stretch.wall_s for stretch in self.stretches),
            "terms_s": _terms_a_gradient_step(self.stretches),
        }

    def _narrowed(self) -> dict[str, object]:
        """Of a learner of precision "dynamic": whether the run lasted beyond its delay, and narrowed activations."""
        delay = delay_of(self.resolved.mapping, self.resolved.schedule.delay)
        if delay is None:
            return {}
        return {"delay": delay, "narrowed": sum(stretch.gradient_steps for stretch in self._whole) > delay}

    def _throughput(self, quantity: str) -> TrainingResult | None:
        # the first stretch, of a single step, only determines the size of the others
        timed = self.stretches[1:] or self.stretches
        samples = [getattr(stretch, quantity) / stretch.wall_s for stretch in timed]
        if not samples:
            return None
        value, low, high = _median(samples)
        return self._row(
            quantity=f"{quantity}_per_s", value=value, low=low, high=high, samples=tuple(samples)
        )

    def _per_watt(self) -> TrainingResult | None:
        if self.meter is None or not self.stretches:
            return None
        quantity = {"quantity": "throughput_per_watt"}
        both = list(zip(self.stretches, self.watts, strict=False))  # Ctrl-C may come between the two
        timed = [(stretch, watts) for stretch, watts in both[1:] or both if watts]
        if not timed:
            reason = self.meter.reason or "a run longer than the steps of its counters"
            return self._row(**quantity, status="not_run", reason=f"not run: needs watts: {reason}")
        samples = [per_watt(stretch.gradient_steps / stretch.wall_s, watts) for stretch, watts in timed]
        value, low, high = _median(samples)
        return self._row(
            **quantity,
            value=value,
            low=low,
            high=high,
            samples=tuple(samples),
            watts=float(np.median([watts for _, watts in timed])),
            counters=[counter.name for counter in self.meter.counters],
        )

    def _returns(self) -> TrainingResult | None:
        """Return the learning curve: the return of every episode, as samples; the value is the mean of the last."""
        episodes = self._episodes
        if not episodes:
            return None
        returns = tuple(episode.episode_return for episode in episodes)
        steps = [episode.environment_step for episode in episodes]
        last = returns[-EPISODES:]
        return self._row(
            quantity="episode_return",
            value=float(np.mean(last)),
            samples=returns,
            episode_ends=steps,
            mean_of_last=len(last),
        )

    def _evaluation(self) -> TrainingResult | None:
        """Return the mean return of greedy episodes after the training; None if there was no evaluation."""
        if self.evaluated is None:
            return None
        quantity = "evaluation_return"
        if not self.evaluated:
            reason = f"not run: needs more than {LIMIT_S:g} s for a greedy episode"
            return self._row(quantity=quantity, status="not_run", reason=reason)
        returns = tuple(self.evaluated)
        low, high = statistics.interval(returns, np.mean) if len(returns) == EPISODES else (None, None)
        return self._row(
            quantity=quantity, value=float(np.mean(returns)), low=low, high=high, samples=returns
        )

    def _best(self) -> TrainingResult | None:
        best = best_mean(self._episodes)
        return None if best is None else self._row(quantity="best_return", value=best)

    def _solved(self) -> list[TrainingResult]:
        """Return when the workload's threshold was first reached: environment steps and seconds; empty if never."""
        threshold = self.resolved.workload.training.solved_return
        when = None if threshold is None else solved(self._whole, threshold)
        if when is None:
            return []
        both = {"environment_steps_to_threshold": when.environment_steps, "time_to_threshold": when.wall_s}
        asked = {"threshold": threshold, "episodes": EPISODES}
        return [self._row(quantity=name, value=value, **asked) for name, value in both.items()]


def start(resolved: Resolved, seed: int = 0) -> Started:
    """Return the training of what `resolve` returned, ready for `warm_up` and `advance`.

    Args:
        resolved: what is trained, and how.

    Raises:
        UserError: a part cannot be created: its memory is taken by now, or a device refuses it.
    """
    if resolved.schedule.threads_native:
        return ThreadedTraining(resolved, seed=seed)
    if resolved.fusion is Fusion.ITERATION:
        return NativeIterations(resolved, seed=seed)
    if resolved.fusion is Fusion.RESIDENT:
        resident = ResidentOnPolicy if is_on_policy(resolved.task) else ResidentTraining
        return resident(resolved, seed=seed)
    if is_on_policy(resolved.task):
        return OnPolicyTraining(resolved, seed=seed)
    return Training(resolved, seed=seed)


def train(resolved: Resolved, seed: int, extent: Extent, report: Report) -> Sequence[Row]:
    """Train for a time or a number of gradient steps, and return the measured throughput and episode returns.

    Args:
        resolved: what is trained, and how.
        extent: length of the run.

    Returns:
        Rows of suite `run`, with the training's provenance: gradient steps and environment steps per second (one
        sample per stretch of about half a second, without warm-up), gradient steps per second and watt ("not run" if
        the energy of a device cannot be read), and what was learnt: the return of greedy episodes at the end, the best
        mean of `EPISODES` episodes in a row, when the workload's threshold was reached (if it was), and the returns of
        all episodes that ended. If an actor, the replay or the learner fails, the rows measured before, and a failed
        row with its name and error.

    Raises:
        UserError: a part of the training cannot be created.
        Interrupted: Ctrl-C; holds the rows of the stretches that had ended, and a row that reports it.
    """
    training = start(resolved, seed)
    try:
        meter = meter_of(resolved.mapping.devices, simulated=training.provenance is not Provenance.MEASURED)
    except BaseException:
        training.close()
        raise
    return measured(training, resolved, seed, extent, report, meter)


def measured(
    training: Trains,
    resolved: Resolved,
    seed: int,
    extent: Extent,
    report: Report,
    meter: EnergyMeter | None = None,
) -> Sequence[Row]:
    """Measure a training that was already created, and close it; return the measurements as rows, like `train`.

    Args:
        training: the training, before its warm-up.
        resolved: what is trained, and how, for the rows.
        extent: length of the run: seconds, or a number of gradient steps.
        meter: reads the energy that the devices use; without it there is no row per watt.

    Raises:
        Interrupted: Ctrl-C; holds the rows of the stretches that had ended, and a row that reports it.
    """
    columns = {
        "mapping": str(resolved.mapping),
        "assignment": str(Assignment.of(resolved.mapping)),
        "fusion": str(resolved.fusion),
        "stepped_by": str(resolved.schedule.stepping(resolved.task)),
        **tree_columns(training),
        "seed": seed,
        "threads": resolved.schedule.threads,
        "options": resolved.schedule.given(),
        **placement_columns(training),
        "timed": HowTimed(conditions=conditions()),
    }
    run = _Run(resolved, columns, training.provenance, meter=meter)
    failed: BaseException | None = None
    try:
        report(0, 1, "filling the replay")
        run.warm_up = training.warm_up()
        _stretches(training, run, extent, report)
        run.evaluated = _evaluated(training, resolved.workload, seed)
    except BaseException as error:  # the rows measured before any failure are kept
        failed = error
    try:
        training.close()
    except Exception as error:  # such as an environment's; nor does it hide why the training ended
        failed = failed or error
    if isinstance(failed, KeyboardInterrupt):
        raise Interrupted([*run.rows(), run.failure(failed)] if run.stretches else []) from failed
    if failed is None:
        return run.rows()
    if not isinstance(failed, Exception):
        raise failed
    return [*run.rows(), run.failure(failed)]


def _stretches(training: Trains, run: _Run, extent: Extent, report: Report) -> None:
    steps, size, begun_s = 0, 1, time.perf_counter()
    while (share := extent.share(begun_s, steps)) < 1:
        report(share, 1, "training")
        if extent.steps is not None:
            size = min(size, extent.steps - steps)
        if run.meter:
            run.meter.begin()
        begin_s = time.perf_counter()
        stretch = training.advance(size)
        took_s = time.perf_counter() - begin_s  # in virtual time this differs from `stretch.wall_s`
        spent_j = run.meter.spent_j() if run.meter else None
        run.watts.append(None if spent_j is None else spent_j / took_s)
        run.stretches.append(stretch)
        steps += stretch.gradient_steps
        size = max(1, round(STRETCH_S * stretch.gradient_steps / took_s))


def _evaluated(training: Trains, workload: Workload, seed: int) -> list[float]:
    """Return the returns of greedy episodes of the trained policy, at most `EPISODES`, within `LIMIT_S` seconds."""
    evaluation = Evaluation(workload, seed)
    try:
        return evaluation.returns(training.greedy(), limit_s=LIMIT_S)
    finally:
        evaluation.close()


def placement_columns(training: object) -> dict[str, Any]:
    """Return the cores to which a training's threads and processes are bound, as a row holds them; empty if to none."""
    placement = training.placement if isinstance(training, Training | ThreadedTraining) else None
    return {"placement": placement.columns()} if placement else {}


def _terms_a_gradient_step(stretches: list[Progress]) -> dict[str, float]:
    steps = sum(stretch.gradient_steps for stretch in stretches)
    names = stretches[0].terms_s if stretches else {}
    return {name: sum(stretch.terms_s[name] for stretch in stretches) / steps for name in names}


def _median(samples: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Return the median and its 95% interval; there is no interval below `statistics.FEWEST_SAMPLES` samples."""
    interval = statistics.interval(samples) if len(samples) >= statistics.FEWEST_SAMPLES else (None, None)
    return float(np.median(samples)), *interval
