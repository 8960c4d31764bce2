"""Tests whether the algorithms learn, by the same training in this project and in another library, for several seeds.

All systems get the same workload, gradient steps, environment steps and hyper-parameters. In "placerl", features
that only this project has (prioritised replay, double DQN) are switched off. "placerl, own settings" trains with
all settings of the workload, including prioritised replay, while the other library keeps its own settings.

The score of a run is the mean return of the episodes that end in the last fifth of training, including
exploration. Several seeds give the interquartile mean with a bootstrap interval (Agarwal et al. 2021, "Deep
reinforcement learning at the edge of the statistical precipice", section 4: the metric of rliable). The best tenth
of training is also reported, because the end does not show what was learnt and lost again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from rich.table import Table

from placerl.harness import workloads
from placerl.harness.compare import registry
from placerl.harness.compare.protocol import Worker, WorkerFailure, WorkerJob
from placerl.harness.compare.rounds import networks_on
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import Mapping
from placerl.harness.mapping.assignments import CPU
from placerl.harness.measure import statistics
from placerl.harness.measure.sequential import interquartile_mean
from placerl.harness.runtime.seed_order import interleaved, last_fifth
from placerl.harness.store.cell import Cell
from placerl.harness.store.rows import LearningResult
from placerl.harness.store.store import Run
from placerl.harness.workloads import Workload

OURS = "placerl"
OWN_SETTINGS = "placerl, own settings"
DEFAULT_MAPPING = "native-native-cpu"
END, BEST = "interquartile_mean_return", "best_interquartile_mean_return"
"""Quantities of the rows that summarise all seeds: at the end of training, and in its best tenth."""
STRETCHES = 10  # stretches of a run; the score is that of the last ones
STRETCH_LIMIT_S = 1800.0
ROUGH_STEP_S = 2e-3  # of one gradient step with its environment steps, for the progress bar
SETTINGS = {"replay.prioritized": False}
DQN_SETTINGS = {"algorithm.double": False, "algorithm.loss": "huber"}


@dataclass(frozen=True)
class LearnedTask:
    """A workload to learn, and the length of each training.

    Attributes:
        gradient_steps: gradient steps of each training run.
    """

    workload: str
    gradient_steps: int
    batch_size: int | None = None


# The quick tier leaves LunarLander out: it needs about 100 000 gradient steps to learn, with five seeds of two
# systems a million, at 0.5 ms or more each with their environment steps; the whole quick tier has 10 minutes.
_QUICK = (
    LearnedTask("cartpole-dqn", 12_000),
    LearnedTask("cartpole-ddpg", 8_000),
    LearnedTask("cartpole-ppo", 3_000),
    LearnedTask("pendulum-td3", 4_500),
    LearnedTask("pendulum-sac", 3_000),
)
_STANDARD = (
    *_QUICK,
    LearnedTask("lunarlander-dqn", 100_000),
    LearnedTask("hopper-ddpg", 100_000),
    LearnedTask("halfcheetah-ddpg", 100_000),
    LearnedTask("pong-dqn", 250_000),
)
TASKS = {"quick": _QUICK, "standard": _STANDARD, "full": _STANDARD}


def like_for_like(name: str) -> Workload:
    """Return a shipped workload with the settings that only this project supports switched off.

    All systems can then train with the same settings.
    """
    item = workloads.load(name)
    settings = SETTINGS | (DQN_SETTINGS if item.algorithm.name == "dqn" else {})
    for field, value in settings.items():
        item = workloads.override(item, field, value, "learn")
    return item


def trained_workload(name: str, system: str) -> Workload:
    """Return the workload that a system trains.

    That is the workload as its file states it for "placerl, own settings", and that of `like_for_like` for others.

    Args:
        system: "placerl", "placerl, own settings" or a baseline's name.
    """
    return workloads.load(name) if system.split(" (")[0] == OWN_SETTINGS else like_for_like(name)


def under(side: str, mapping: Mapping) -> str:
    """Return the name of this project in rows and tables if it trains with a mapping (an assignment to devices).

    Args:
        side: the name without a mapping, "placerl" (`OURS`) or "placerl, own settings" (`OWN_SETTINGS`).
    """
    return side if str(mapping) == DEFAULT_MAPPING else f"{side} ({mapping})"


def settings_of(item: Workload) -> dict[str, Any]:
    """Return the values that a workload gives to the settings that only this project supports, in a dict by field."""
    algorithm = item.algorithm
    settings: dict[str, Any] = (
        {} if algorithm.name == "ppo" else {"replay.prioritized": item.replay.prioritized}
    )
    if algorithm.name == "dqn":
        settings |= {
            field: algorithm.hyperparameters[field.removeprefix("algorithm.")] for field in DQN_SETTINGS
        }
    return settings


def plan(tier: str, systems: Sequence[str], mapping: Mapping) -> list[Cell]:
    """Return the cells (units of work, each stored as soon as it ends) that train and summarise a tier's workloads.

    There is one cell for each training, given by workload, seed and system, and one for the summary of each workload
    and system.

    Args:
        tier: a key of `TASKS`.
        systems: "placerl" and names of baselines. "placerl" adds "placerl, own settings" if they differ.
        mapping: this project's mapping. If it is not `DEFAULT_MAPPING`, the names of the systems "placerl" and
            "placerl, own settings" include it, so that cells and rows of different mappings stay distinct.
    """
    cells = []
    for task in TASKS[tier]:
        item = workloads.load(task.workload)
        differ = settings_of(item) != settings_of(like_for_like(task.workload))
        own = [OWN_SETTINGS] if OURS in systems and differ else []
        sides = [under(side, mapping) if side in (OURS, OWN_SETTINGS) else side for side in (*systems, *own)]
        cells += [
            _training_cell(task, side, seed, mapping)
            for seed, side in interleaved(item.training.seeds, sides)
        ]
        cells += [_summary_cell(task, side) for side in sides]
    return cells


def _training_cell(task: LearnedTask, system: str, seed: int, mapping: Mapping) -> Cell:
    def measure(run: Run, report: Report) -> Sequence[Row]:
        if system in (under(OURS, mapping), under(OWN_SETTINGS, mapping)):
            start = partial(registry.own_worker, str(mapping))
            return [train(task, system, start, seed, report, networks_on(mapping))]
        return [train(task, system, partial(registry.baseline_worker, system), seed, report)]

    return Cell(f"learn/{task.workload}/{system}/seed{seed}", task.gradient_steps * ROUGH_STEP_S, measure)


def summary_key(workload: str, system: str) -> str:
    """Return the key of the cell (unit of work of a run) that summarises a system's trainings of a workload."""
    return f"learn/{workload}/{system}/summary"


def _summary_cell(task: LearnedTask, system: str) -> Cell:
    def mine(rows: Sequence[LearningResult]) -> Sequence[LearningResult]:
        return [row for row in rows if (row.workload, row.system) == (task.workload, system)]

    def summarised(run: Run) -> Sequence[LearningResult]:
        rows = mine(_rows(run, "final_return"))
        return [summary(task.workload, system, rows), best(task.workload, system, rows)]

    def stale(run: Run) -> bool:
        """Return whether a seed has been trained since, for instance one that had failed."""
        held = mine([*summaries(run), *bests(run)])
        return [row.to_json() for row in held] != [row.to_json() for row in summarised(run)]

    return Cell(summary_key(task.workload, system), 0, lambda run, report: summarised(run), stale=stale)


def _rows(run: Run, quantity: str) -> Sequence[LearningResult]:
    """Return the run's rows of a quantity, only the newest for each workload, system and seed."""
    newest = {
        (row.workload, row.system, row.seed): row
        for row in run.rows(LearningResult, suite=Suite.LEARN)
        if row.quantity == quantity
    }
    return list(newest.values())


def train(
    task: LearnedTask,
    system: str,
    start: Callable[[], Worker],
    seed: int,
    report: Report,
    device: str = CPU,
) -> LearningResult:
    """Run one training in its own process.

    Args:
        report: called with the gradient steps taken.
        device: device that the system's networks compute on, "cpu" or a CUDA device, for the row.

    Returns:
        A row of suite `learn`, quantity `final_return`. It holds the learning curve (for each stretch of
        training the environment steps and the mean return of the episodes that ended) and the requested
        `options` that only this project has; a baseline's `deviations` say how it deals with them. A system that fails
        has a row of status `failed`.
    """
    item = trained_workload(task.workload, system)
    batch_size = task.batch_size or item.training.batch_size
    job = WorkerJob(
        workload=item.tables(),
        batch_size=batch_size,
        seed=seed,
        gradient_steps=max(1, task.gradient_steps // STRETCHES),
    )
    row = partial(
        LearningResult,
        suite=Suite.LEARN,
        workload=task.workload,
        primitive="training",
        system=system,
        device=device,
        batch_size=batch_size,
        quantity="final_return",
        provenance=Provenance.MEASURED,
    )
    returns: list[list[float]] = []
    environment_steps, wall_s, gradient_steps = [0], 0.0, 0
    result = None
    try:
        with start() as worker:
            while gradient_steps < task.gradient_steps:
                report(gradient_steps, task.gradient_steps, f"{task.workload}, {system}, seed {seed}")
                result = worker.ask(job, STRETCH_LIMIT_S)
                gradient_steps += result.gradient_steps
                environment_steps.append(environment_steps[-1] + result.environment_steps)
                wall_s += result.wall_s
                returns.append(result.episode_returns)
    except WorkerFailure as failure:
        return row(
            status="failed",
            reason=str(failure),
            seed=seed,
            last_lines=list(failure.last_lines),
        )
    assert result
    columns: dict[str, Any] = {
        "seed": seed,
        "options": settings_of(item),
        "gradient_steps": gradient_steps,
        "steps_by_stretch": environment_steps[1:],
        "mean_returns": [float(np.mean(ended)) if ended else None for ended in returns],
        "wall_s": wall_s,
        "versions": result.versions,
        "deviations": result.notes,
    }
    last = [value for ended in last_fifth(returns) for value in ended]
    if not last:
        return row(status="failed", reason="no episode ended in the last fifth of training", **columns)
    return row(value=float(np.mean(last)), samples=tuple(last), **columns)


def summary(name: str, system: str, rows: Sequence[LearningResult]) -> LearningResult:
    """Return a row with the interquartile mean of the returns at the end of training, over seeds.

    It has a 95% bootstrap interval if there are at least `statistics.FEWEST_SAMPLES` seeds.

    Args:
        rows: of quantity `final_return`, one per seed; failed ones are counted.
    """
    scores = [row.value for row in rows if row.value is not None]
    counts: dict[str, Any] = {"seeds_trained": len(scores), "seeds_failed": len(rows) - len(scores)}
    if not scores:
        return _over_seeds(name, system, END, rows, **counts, status="failed", reason="every seed failed")
    return _over_seeds(name, system, END, rows, scores, **counts)


def best(name: str, system: str, rows: Sequence[LearningResult]) -> LearningResult:
    """Return a row with the interquartile mean over seeds in the stretch (tenth) of training in which it is highest.

    The row gives the `stretch`, counted from 1, the number of `stretches`, and the median of `environment_steps` at
    its end. As a maximum, the value is biased upwards by chance; its interval does not include this bias.

    Args:
        rows: of quantity `final_return`, one per seed, with the learning curves.
    """
    curves = [row for row in rows if row.value is not None]
    by_stretch = list(zip(*(curve.mean_returns or () for curve in curves), strict=False))
    common = [place for place, means in enumerate(by_stretch) if None not in means]
    counts: dict[str, Any] = {"seeds_trained": len(curves), "seeds_failed": len(rows) - len(curves)}
    if not common:
        needs = "needs: a stretch of training in which an episode of every seed ended"
        return _over_seeds(name, system, BEST, rows, **counts, status="not_run", reason=needs)
    highest = max(common, key=lambda place: interquartile_mean(by_stretch[place]))
    steps = int(np.median([(curve.steps_by_stretch or ())[highest] for curve in curves]))
    counts |= {"stretch": highest + 1, "stretches": len(by_stretch), "environment_steps": steps}
    return _over_seeds(name, system, BEST, rows, by_stretch[highest], **counts)


def _over_seeds(
    name: str,
    system: str,
    quantity: str,
    trained: Sequence[LearningResult],
    scores: Sequence[float] = (),
    **fields: Any,
) -> LearningResult:
    """Return a row of suite `learn`, on the device of the trainings: the interquartile mean of the scores, if any."""
    if scores:
        fields |= {"value": float(interquartile_mean(scores)), "samples": tuple(scores)}
    if len(scores) >= statistics.FEWEST_SAMPLES:
        fields["low"], fields["high"] = statistics.interval(scores, interquartile_mean)
    return LearningResult(
        suite=Suite.LEARN,
        workload=name,
        primitive="training",
        system=system,
        device=next((row.device for row in trained), CPU),
        quantity=quantity,
        provenance=Provenance.MEASURED,
        **fields,
    )


def summaries(run: Run) -> Sequence[LearningResult]:
    """Return the stored scores at the end of training (rows of `summary`), the newest of each workload and system."""
    return _rows(run, END)


def bests(run: Run) -> Sequence[LearningResult]:
    """Return the stored scores of the best stretch of training (rows of `best`), the newest per workload and system."""
    return _rows(run, BEST)


def table(rows: Sequence[LearningResult], highest: Sequence[LearningResult] = ()) -> Table:
    """Return a table of the returns, with one line per workload and system.

    Args:
        highest: the scores of the best stretch of training, from `best`, shown in the same lines.
    """
    lines = Table(
        title="Interquartile mean of the return, over seeds",
        caption=f"End: the last fifth of training. Best: the highest of {STRETCHES} stretches, up by chance too.",
    )
    by_system = {(row.workload, row.system): row for row in highest}
    for column in ("workload", "system", "at the end", "best", "best at step", "seeds", "provenance"):
        lines.add_column(column)
    for row in rows:
        top = by_system.get((row.workload, row.system))
        step = f"{top.environment_steps:,}" if top and top.value is not None else ""
        seeds = str(row.seeds_trained)
        reached = _mean_text(top) if top else ""
        lines.add_row(row.workload, row.system, _mean_text(row), reached, step, seeds, str(row.provenance))
    return lines


def _mean_text(row: LearningResult) -> str:
    if row.value is None:
        return f"not run: {row.reason}" if row.status == "not_run" else row.reason
    return f"{row.value:.4g}" + ("" if row.low is None else f" [{row.low:.4g}, {row.high:.4g}]")
