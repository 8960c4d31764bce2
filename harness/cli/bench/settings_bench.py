"""Asks whether the settings of the workloads teach their tasks: the shipped ones, and others that were tried.

    placerl bench settings [--workloads mountaincar-ddpg,pendulum-td3] [--settings shipped] [--seeds 10]

The settings that were tried stand in `settings.toml`, each with its source. A training has as many gradient steps as
that file allows its workload. It has learnt its task if the mean return of 20 greedy episodes after the last gradient
step reaches the task's threshold: to have been there once is not enough. Every settings are trained with one seed
before the next seed begins, and those of which `--misses` trainings have not learnt are given up, because settings are
sought that teach with every seed. The same command goes on with an interrupted search.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from pydantic import Field

from placerl.harness import workloads
from placerl.harness.cli.bench.command import Bench, chosen, section
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Interrupted, Row
from placerl.harness.core.suites import Suite
from placerl.harness.core.toml_models import TomlTable, check, read_toml
from placerl.harness.loop.schedule import STRICT
from placerl.harness.mapping import Mapping
from placerl.harness.mapping.target import NATIVE_MAPPING
from placerl.harness.runtime import measured_run
from placerl.harness.runtime.measured_run import Extent
from placerl.harness.runtime.resolve import resolve
from placerl.harness.runtime.seed_order import interleaved
from placerl.harness.store.cell import Cell
from placerl.harness.store.rows import TrainingResult
from placerl.harness.store.store import Run
from placerl.harness.workloads import Workload

SUITE = Suite.BENCH_SETTINGS
FILE = Path(__file__).with_name("settings.toml")
SHIPPED = "shipped"
"""Name of the settings that a workload's file has."""
SEEDS, MISSES = 10, 2
_ROUGH_STEP_S = 2e-4
END = "evaluation_return"
"""Quantity that says whether a task is learnt."""


class Tried(TomlTable):
    """A `[[tried]]` table: settings of a workload that were tried, as what differs from its file."""

    workload: str
    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9-]{0,40}$", description="unique among the workload's settings"
    )
    source: str = Field(min_length=1, max_length=300, description="where the settings are from")
    steps: int | None = Field(default=None, ge=1, description="gradient steps; the workload's when left out")
    changes: dict[str, dict[str, Any]] = Field(
        description="fields of the workload's tables, by table and name"
    )


class Searched(TomlTable):
    """The file of what is trained."""

    steps: dict[str, Annotated[int, Field(ge=1)]] = Field(description="gradient steps, by workload")
    tried: tuple[Tried, ...] = ()


@dataclass(frozen=True)
class Settings:
    """A workload with the settings to train it with.

    Attributes:
        name: name of the settings, unique among the workload's.
    """

    name: str
    task: Workload
    steps: int

    def cell(self, seed: int, misses: int) -> Cell:
        """Return the cell (a unit of work of a run) that trains with a seed, unless the settings are given up by then.

        Args:
            misses: earlier seeds with which the task was not learnt, at which the settings are given up.
        """

        def missed(run: Run) -> int:
            return sum(learnt(row) is False for at in range(seed) for row in self.cell(at, misses).rows(run))

        def measure(run: Run, report: Report) -> Sequence[Row]:
            count = missed(run)
            return self._trained(seed, report) if count < misses else [self._given_up(seed, count)]

        def stale(run: Run) -> bool:
            given_up = any(row.quantity == END and row.status == "not_run" for row in cell.rows(run))
            return given_up and missed(run) < misses

        key = f"{SUITE}/{self.task.name}/{self.name}/{self.steps}/seed{seed}"
        cell = Cell(key, self.steps * _ROUGH_STEP_S, measure, stale=stale)
        return cell

    def _given_up(self, seed: int, missed: int) -> TrainingResult:
        return TrainingResult(
            suite=SUITE,
            workload=self.task.name,
            primitive="training",
            batch_size=self.task.training.batch_size,
            quantity=END,
            provenance=Provenance.MEASURED,
            status="not_run",
            reason=f"not run: with {missed} of the {seed} seeds before the task was not learnt",
            mapping=NATIVE_MAPPING,
            tried=self.name,
            seed=seed,
        )

    def _trained(self, seed: int, report: Report) -> Sequence[Row]:
        resolved = resolve(STRICT, self.task, Mapping.parse(NATIVE_MAPPING))
        try:
            rows = measured_run.train(resolved, seed, Extent(steps=self.steps), report)
        except Interrupted as stop:
            raise Interrupted([]) from stop  # what a training learnt says only its end
        ours = [row for row in rows if isinstance(row, TrainingResult)]
        return [replace(row, suite=SUITE, tried=self.name, threshold=self.threshold) for row in ours]

    @property
    def threshold(self) -> float | None:
        """The task's threshold, a mean return; None if its file states none."""
        return self.task.training.solved_return


def learnt(row: Row) -> bool | None:
    """Return whether a row says that a training ended with its task learnt; None if it says nothing about it."""
    if not isinstance(row, TrainingResult) or row.quantity != END or row.value is None:
        return None
    return row.threshold is None or row.value >= row.threshold


def searched(path: Path = FILE) -> Searched:
    """Return what is trained, from its file."""
    search = check(Searched, read_toml(path), path)
    for tried in search.tried:
        if tried.workload not in search.steps:
            raise UserError(path, f"tried {tried.name}: workload", tried.workload, ", ".join(search.steps))
        tables = workloads.load(tried.workload).tables()
        for table in tried.changes:
            if not isinstance(tables.get(table), dict):
                allowed = ", ".join(name for name, value in tables.items() if isinstance(value, dict))
                raise UserError(path, f"tried {tried.name}: changes", table, allowed)
    return search


def settings_of(name: str, search: Searched) -> list[Settings]:
    """Return the settings of a workload: the shipped ones, then those that were tried, in the order of the file."""
    task, steps = workloads.load(name), search.steps[name]
    settings = [Settings(SHIPPED, task, steps)]
    for tried in search.tried:
        if tried.workload == name:
            tables = task.tables()
            for table, fields in tried.changes.items():
                tables[table] |= fields
            changed = workloads.from_tables(tables, f"{FILE.name}, {name}, {tried.name}")
            settings.append(Settings(tried.name, changed, tried.steps or steps))
    return settings


def table(settings: Sequence[Settings], search: Searched, rows: Sequence[TrainingResult]) -> str:
    """Return the results as Markdown: a line for each workload and settings."""
    sources = {(tried.workload, tried.name): tried for tried in search.tried}
    cells = []
    for one in settings:
        own = [row for row in rows if (row.workload, row.tried) == (one.task.name, one.name)]
        ends = [row for row in own if row.quantity == END and row.value is not None]
        if not ends:
            continue
        when = [row.value for row in own if row.quantity == "time_to_threshold" and row.value is not None]
        once = f"{len(when)}" + (f", after {np.median(when):.3g} s" if when else "")
        tried = sources.get((one.task.name, one.name))
        threshold = "" if one.threshold is None else f"{one.threshold:g}"
        returns = ", ".join(f"{row.value:.4g}" for row in sorted(ends, key=lambda row: row.seed or 0))
        cells.append(
            [
                *(one.task.name, one.name, f"{one.steps:,}", threshold),
                *(once, f"{sum(learnt(row) is True for row in ends)} of {len(ends)}", returns),
                f"{_written(tried.changes)} ({tried.source})" if tried else "",
            ]
        )
    columns = (
        *("workload", "settings", "gradient steps", "threshold"),
        *("reached while exploring", "ended there", "return at the end, by seed", "what differs"),
    )
    about = (
        "The return at the end is the mean of 20 greedy episodes after the last gradient step. Settings with "
        "several seeds below the threshold are trained with no more. Seconds are medians, on one core."
    )
    return "\n".join(["# Settings that teach", "", about, "", *section("Settings", columns, cells)])


def _written(changes: dict[str, dict[str, Any]]) -> str:
    return ", ".join(f"{name} {value}" for fields in changes.values() for name, value in fields.items())


def bench(
    names: Annotated[
        str, typer.Option("--workloads", help="Workloads, separated by commas; all when left out.")
    ] = "",
    only: Annotated[
        str, typer.Option("--settings", help="Names of settings, separated by commas; all when left out.")
    ] = "",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds, from 0.")] = SEEDS,
    misses: Annotated[
        int, typer.Option("--misses", min=1, help="Seeds without success, after which settings are given up.")
    ] = MISSES,
) -> Bench[TrainingResult]:
    """Train each workload with its own settings, and with others that were tried, and say which teach its task.

    A training has learnt its task if it ends at the task's threshold, in the mean of 20 greedy episodes.
    """
    search = searched()
    asked = chosen("--workloads", names, tuple(search.steps)) if names else list(search.steps)
    settings = [one for name in asked for one in settings_of(name, search)]
    if only:
        wanted = chosen("--settings", only, tuple(dict.fromkeys(one.name for one in settings)))
        settings = [one for one in settings if one.name in wanted]
    return Bench(
        SUITE,
        TrainingResult,
        [one.cell(seed, misses) for seed, one in interleaved(range(seeds), settings)],
        partial(table, settings, search),
        selecting=("names", "only", "seeds", "misses"),
    )
