"""Trains workloads under several mappings, by default with five seeds each, and compares what they have learnt.

    placerl bench returns [--workloads hopper-ddpg,halfcheetah-sac] [--steps 100000] [--batch-size 256]

By default a learner in float32 is compared with one whose matrix products are in bfloat16. Every training has a process
of its own. All mappings are trained with one seed before the next seed begins, so that an interrupted run can already
be compared; the same command continues it. The score of a training is the mean return of the episodes that end in its
last fifth, exploration included. The score of a mapping is the interquartile mean over the seeds with a bootstrap
interval (`harness.compare.learning`). A mapping learns as much as the first one if its score is within the first one's
interval, or above it. Nothing is timed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import typer

from placerl.harness import workloads
from placerl.harness.cli.bench.command import Bench, cell, joined, section, shown
from placerl.harness.compare import learning, registry
from placerl.harness.compare.learning import LearnedTask
from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import Mapping
from placerl.harness.runtime import mapped_parts
from placerl.harness.runtime.seed_order import interleaved
from placerl.harness.store.cell import Cell
from placerl.harness.store.rows import LearningResult

SUITE = Suite.BENCH_RETURNS
WORKLOADS = ("hopper-ddpg", "halfcheetah-sac")
MAPPINGS = ("native-native-cpu", "native[bfloat16]-native-cpu")
SEEDS = 5
STEPS = 100_000


@dataclass(frozen=True)
class Study:
    """A workload that is trained under several mappings, with several seeds each.

    Attributes:
        task: the workload, the gradient steps and the batch size of each training.
        mappings: the mappings; all others are compared with the first one.
        seeds: the seeds with which each mapping is trained.
    """

    task: LearnedTask
    mappings: tuple[Mapping, ...]
    seeds: tuple[int, ...]

    def cells(self) -> list[Cell]:
        """Return a cell (a unit of work of a run) for each training: first all mappings of a seed, then of the next."""
        estimate_s = self.task.gradient_steps * learning.ROUGH_STEP_S
        return [
            cell(self._key(mapping, seed), partial(self._train, mapping, seed), estimate_s)
            for seed, mapping in interleaved(self.seeds, self.mappings)
        ]

    def summaries(self, rows: Sequence[Row]) -> list[LearningResult]:
        """Return a row with the score of each mapping over its seeds, from the trainings that are stored so far.

        `at_least_first` of a row says whether the mapping learns as much as the first mapping (`at_least`).
        """
        summaries: list[LearningResult] = []
        for mapping in self.mappings:
            mine = [
                row
                for row in rows
                if isinstance(row, LearningResult)
                and (row.workload, row.device) == (self.task.workload, str(mapping))
            ]
            row = _under(mapping, learning.summary(self.task.workload, learning.OWN_SETTINGS, mine))
            within = at_least(row, summaries[0]) if summaries else None
            size = self.task.batch_size or workloads.load(self.task.workload).training.batch_size
            steps = self.task.gradient_steps
            summaries.append(replace(row, batch_size=size, gradient_steps=steps, at_least_first=within))
        return summaries

    def _key(self, mapping: Mapping, seed: int) -> str:
        task = self.task
        size = task.batch_size or "own"
        return f"{SUITE}/{task.workload}/{size}/{task.gradient_steps}/{mapping}/seed{seed}"

    def _train(self, mapping: Mapping, seed: int, report: Report) -> Sequence[Row]:
        start = partial(registry.own_worker, str(mapping))
        return [_under(mapping, learning.train(self.task, learning.OWN_SETTINGS, start, seed, report))]


def _under(mapping: Mapping, row: LearningResult) -> LearningResult:
    """Return a row of suite `learn` as one of this benchmark's, which no summary of `placerl learn` counts."""
    return replace(row, suite=SUITE, system=str(mapping.learner), device=str(mapping))


def at_least(row: Row, first: Row) -> bool | None:
    """Return whether a mapping's score is within the interval of the first mapping's score, or above it.

    Returns:
        None if the score or the interval is unknown.
    """
    if row.value is None or first.low is None:
        return None
    return row.value >= first.low


def table(studies: Sequence[Study], rows: Sequence[Row]) -> str:
    """Return the results as Markdown: a table with one line per workload and mapping (assignment to devices)."""
    lines = [
        "# Returns by mapping",
        "",
        "Interquartile mean over the seeds of the mean return in the last fifth of training, with its 95% bootstrap "
        "interval; provenance: measured.",
        "",
    ]
    cells = []
    for study in studies:
        for row in study.summaries(rows):
            score = row.reason if row.value is None else shown(row, 1, ".4g")
            each = ", ".join(f"{value:.4g}" for value in row.samples)
            said = {None: "", True: "yes", False: "NO"}[row.at_least_first]
            steps = f"{study.task.gradient_steps:,}"
            cells.append([row.workload, row.device, str(row.batch_size), steps, score, each, said])
    columns = (
        "workload",
        "mapping",
        "batch",
        "gradient steps",
        "return",
        "by seed",
        "within the first's or above",
    )
    return "\n".join([*lines, *section("Returns", columns, cells)])


def bench(
    names: Annotated[str, typer.Option("--workloads", help="Workloads, separated by commas.")] = joined(
        WORKLOADS
    ),
    mappings: Annotated[
        str,
        typer.Option(
            "--mappings", help="Mappings, separated by commas; the first is what others must reach."
        ),
    ] = joined(MAPPINGS),
    steps: Annotated[int, typer.Option("--steps", min=100, help="Gradient steps of each training.")] = STEPS,
    batch_size: Annotated[
        int | None,
        typer.Option(
            "--batch-size", min=1, help="Transitions in a batch; each workload's own when left out."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds, from 0.")] = SEEDS,
) -> Bench[LearningResult]:
    """Train with several mappings, by default in float32 and in bfloat16, and compare the returns over seeds.

    Exit status 1 if a training failed; the same command tries it again.
    """
    chosen = tuple(Mapping.parse(text.strip()) for text in mappings.split(","))
    studies = [
        Study(LearnedTask(name.strip(), steps, batch_size), chosen, tuple(range(seeds)))
        for name in names.split(",")
    ]
    for study in studies:
        for mapping in chosen:
            mapped_parts.check(workloads.load(study.task.workload), mapping)
    cells = [cell for study in studies for cell in study.cells()]
    return Bench(
        SUITE,
        LearningResult,
        cells,
        partial(table, studies),
        selecting=("names", "mappings", "steps", "batch_size", "seeds"),
    )
