"""Trains this project or another library at its own settings, and evaluates it at gaps: what it had learnt, and when.

An evaluation is the mean return of `EPISODES` greedy episodes in an environment of their own, from the same starts on
all sides. Gaps count environment steps, equally on all sides: a fixed number, and where a growth is given, no less than
that fraction of the steps taken so far. Evaluations are in no duration. One thread computes, and one training runs at a
time.

A return is reached at the first of `HOLD` evaluations in a row that are at least as high: to be there once is not
enough.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from time import monotonic
from typing import Any

import numpy as np

from placerl.harness.compare import registry
from placerl.harness.compare.own_settings import SHIPPED, Goal
from placerl.harness.compare.parts import OURS, our_side
from placerl.harness.compare.protocol import FailureKind, Worker, WorkerFailure, WorkerJob
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import HowTimed
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import Mapping
from placerl.harness.mapping.target import NATIVE_MAPPING
from placerl.harness.measure.conditions import conditions
from placerl.harness.measure.episodes import EPISODES
from placerl.harness.store.cell import Cell
from placerl.harness.store.rows import LearningCurve
from placerl.harness.store.store import Run
from placerl.harness.workloads import Workload

HOLD = 5
"""Evaluations in a row that must be at a return, or above, for it to be reached."""
QUANTITY = "evaluation_return"
JOB_LIMIT_S = 3600.0


@dataclass(frozen=True)
class Extent:
    """When a training is evaluated, and when it ends.

    Attributes:
        gap: environment steps between evaluations.
        growth: least gap as a fraction of the steps taken so far.
        steps: environment steps after which it ends.
        budget_s: seconds of training after which it ends, unless it may be about to reach the threshold.
        threshold: return to reach, at which it ends.
    """

    gap: int
    growth: float = 0.0
    steps: float = math.inf
    budget_s: float = math.inf
    threshold: float = math.inf

    def next_after(self, steps: int) -> int:
        """Return the environment steps at which to evaluate next."""
        return max(steps + self.gap, math.ceil(steps * (1 + self.growth)))

    def is_over(self, steps: int, seconds: float, returns: Sequence[float]) -> bool:
        """Return whether a training ends.

        Args:
            returns: mean return of each evaluation so far, one at least.
        """
        if reached(returns, self.threshold) is not None or steps >= self.steps:
            return True
        return seconds >= self.budget_s and returns[-1] < self.threshold


def reached(returns: Sequence[float], threshold: float) -> int | None:
    """Return the place of the evaluation at which a threshold is reached and held; None if it never is."""
    for place in range(len(returns) - HOLD + 1):
        if min(returns[place : place + HOLD]) >= threshold:
            return place
    return None


def seconds_to_return(row: Any) -> float | None:
    """Return the seconds of training in which a row's threshold was reached; None if it was not within the budget.

    Args:
        row: a `LearningCurve`, or a record of a frame with its columns.
    """
    assert row.threshold is not None
    place = reached(row.returns_at or (), row.threshold)
    if place is None or row.seconds_at is None:
        return None
    seconds = row.seconds_at[place]
    return None if row.budget_s is not None and seconds > row.budget_s else float(seconds)


@dataclass
class _Curve:
    """The evaluations so far."""

    steps: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)

    def columns(self) -> dict[str, Any]:
        return {"steps_at": self.steps, "seconds_at": self.seconds, "returns_at": self.returns}


@dataclass(frozen=True)
class CurveOf:
    """A training of a system for a goal.

    Attributes:
        suite: the suite of its row.
        name: the system's name in the row, such as "placerl, uniform replay".
        system: "placerl" or a baseline.
        item: what it trains.
        settings_from: where its settings are from.
        library: settings of the library's own.
    """

    suite: Suite
    name: str
    system: str
    item: Workload
    settings_from: str = SHIPPED
    library: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, suite: Suite, goal: Goal, system: str) -> "CurveOf":
        """Return the training of a system at its own settings for a goal."""
        side = goal.side_of(system)
        item = goal.workload_of(system)
        return (
            cls(suite, system, system, item, side.source, side.library)
            if side
            else cls(suite, system, system, item)
        )

    def cell(self, extent: Extent, seed: int, estimate_s: float) -> Cell:
        """Return the cell (a unit of work of a run) of the training with a seed."""

        def stale(run: Run) -> bool:
            """Return whether a library that was missing is there by now."""
            missed = any(row.status == "not_run" and _MISSING in row.reason for row in cell.rows(run))
            return missed and registry.is_built(self.system)

        limit = f"{extent.steps}" if math.isfinite(extent.steps) else f"{extent.budget_s:g}s"
        cell = Cell(
            f"{self.suite}/{self.item.name}/{self.name}/{limit}/seed{seed}",
            estimate_s,
            lambda _, report: [self.trained(extent, seed, report)],
            stale=stale,
        )
        return cell

    def trained(self, extent: Extent, seed: int, report: Report) -> LearningCurve:
        """Train with a seed, and return the row: failed or not run, with the reason, if the system did not train."""
        if self.system != OURS and not registry.is_built(self.system):
            return self._row(extent, seed, status="not_run", reason=f"{_MISSING} {self.system}")
        curve = _Curve()
        try:
            with self._start()() as worker:
                columns = self._train(worker, extent, seed, curve, report)
        except WorkerFailure as failure:
            refused = failure.kind is FailureKind.REFUSED
            return self._row(
                extent,
                seed,
                status="not_run" if refused else "failed",
                reason=f"not run: {self.system} cannot do it: {failure.detail}" if refused else str(failure),
                last_lines=list(failure.last_lines),
                **curve.columns(),
            )
        return self._row(extent, seed, value=curve.returns[-1], **columns, **curve.columns())

    def _start(self) -> Callable[[], Worker]:
        if self.system != OURS:
            return partial(registry.baseline_worker, self.system)
        side = our_side(self.item, Mapping.parse(NATIVE_MAPPING))
        return partial(registry.own_worker, NATIVE_MAPPING, **asdict(side))

    def _train(
        self, worker: Worker, extent: Extent, seed: int, curve: _Curve, report: Report
    ) -> dict[str, Any]:
        """Train to the end, add the evaluations to `curve`, and return further columns of the row."""
        job = WorkerJob(
            workload=self.item.tables(),
            batch_size=self.item.training.batch_size,
            seed=seed,
            gradient_steps=1,
            library=self.library,
        )
        begin_s = monotonic()
        result = worker.ask(job, JOB_LIMIT_S)
        start_s = monotonic() - begin_s - result.wall_s
        seconds, gradient_steps, learning_steps = (
            result.wall_s,
            result.gradient_steps,
            result.environment_steps,
        )
        while not curve.returns or not extent.is_over(curve.steps[-1], seconds, curve.returns):
            steps = result.environment_steps_so_far
            total, done = (extent.steps, steps) if math.isfinite(extent.steps) else (extent.budget_s, seconds)
            report(min(done, total), total, f"{self.item.name}, {self.name}, seed {seed}")
            missing = (extent.next_after(steps) - steps) * gradient_steps / max(1, learning_steps)
            asked = {"gradient_steps": max(1, round(missing)), "evaluation_episodes": EPISODES}
            result = worker.ask(job.model_copy(update=asked), JOB_LIMIT_S)
            seconds += result.wall_s
            gradient_steps += result.gradient_steps
            learning_steps += result.environment_steps
            curve.steps.append(result.environment_steps_so_far)
            curve.seconds.append(seconds)
            curve.returns.append(float(np.mean(result.evaluation_returns)))
        return {
            "samples": tuple(result.evaluation_returns),
            "gradient_steps": gradient_steps,
            "environment_steps": result.environment_steps_so_far,
            "start_s": start_s,
            "versions": result.versions,
            "deviations": result.notes,
        }

    def _row(self, extent: Extent, seed: int, **columns: Any) -> LearningCurve:
        return LearningCurve(
            suite=self.suite,
            workload=self.item.name,
            primitive="training",
            batch_size=self.item.training.batch_size,
            quantity=QUANTITY,
            provenance=Provenance.MEASURED,
            system=self.name,
            device="cpu",
            seed=seed,
            settings_from=self.settings_from,
            threshold=self.item.training.solved_return,
            budget_s=extent.budget_s if math.isfinite(extent.budget_s) else None,
            timed=HowTimed(conditions=conditions()),
            **columns,
        )


_MISSING = "not run: needs its environment: placerl baselines"
