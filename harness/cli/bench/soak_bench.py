"""Trains for a long time and checks that memory, file descriptors, threads and throughput do not change.

    placerl bench soak [--minutes 60] [--out results/soak]

It trains `hopper-ddpg`. For half of the time a whole gradient step, replay included, is fused into one native call; for
the other half the parts are called one after the other. The replay is small, so that it is full and being overwritten
before anything is compared.
"""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Annotated

import numpy as np
import psutil
import typer

from placerl.harness import workloads
from placerl.harness.cli.bench.command import Bench, cell, section
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import HowTimed, Row
from placerl.harness.core.suites import Suite
from placerl.harness.loop.schedule import Fusion, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.measure.conditions import conditions
from placerl.harness.measure.statistics import FEWEST_SAMPLES, ratio_interval
from placerl.harness.runtime.resolve import resolve
from placerl.harness.runtime.training import Training
from placerl.harness.store.diff import DRIFT

WORKLOAD, MAPPING = "hopper-ddpg", Mapping.parse("native-native-cpu")
SOAK = Suite.SOAK
CAPACITY = 5_000  # transitions: overwritten many times in minutes
STRETCH_S = 2.0
GROWTH = 0.01  # of resident memory that still counts as unchanged


@dataclass(frozen=True)
class Reading:
    """The state of the process after a stretch of training, `STRETCH_S` seconds.

    Attributes:
        gradient_steps_per_processor_s: gradient steps of the stretch per second of the process's processor time,
            which other programs on the cores do not change.
        resident_bytes: memory in use, including shared pages.
        descriptors: number of open files.
    """

    gradient_steps_per_processor_s: float
    resident_bytes: int
    descriptors: int
    threads: int


@dataclass(frozen=True, kw_only=True)
class SoakResult(Row, table="soak_result", where="mapping"):
    """A quantity of the process over a long training.

    Attributes:
        mapping: where the training runs.
        fusion: which parts of a training step run as one call.
        not_flat: for each quantity that got worse, how it changed.
    """

    mapping: str = ""
    fusion: str = ""
    not_flat: dict[str, str] | None = None


def readings(fusion: Fusion, seconds: float, report: Report) -> Iterator[Reading]:
    """Train until the replay is full, then for some seconds more, and yield a reading every `STRETCH_S` of these."""
    item = workloads.override(workloads.load(WORKLOAD), "training.learning_starts", CAPACITY // 2, "soak")
    item = workloads.override(item, "replay.capacity", CAPACITY, "soak")
    training = Training(resolve(Schedule(fusion=fusion), item, MAPPING))
    process = psutil.Process(os.getpid())
    try:
        training.warm_up()
        steps = 50
        while training.environment_steps < CAPACITY:
            steps = _steps_a_stretch(training, steps)[0]
        begin_s = time.monotonic()
        while (elapsed_s := time.monotonic() - begin_s) < seconds:
            report(elapsed_s, seconds, str(fusion))
            steps, rate = _steps_a_stretch(training, steps)
            yield Reading(rate, process.memory_info().rss, process.num_fds(), process.num_threads())
    finally:
        training.close()


def _steps_a_stretch(training: Training, steps: int) -> tuple[int, float]:
    """Take `steps` gradient steps; returns the number for the next stretch, and the rate by processor time."""
    begin_s = time.process_time()
    progress = training.advance(steps)
    processor_s = time.process_time() - begin_s
    return max(1, round(progress.gradient_steps / progress.wall_s * STRETCH_S)), (
        progress.gradient_steps / processor_s
    )


def verdicts(series: Sequence[Reading]) -> dict[str, str]:
    """Return what changed for the worse from the first to the last quarter of the readings.

    Memory, open files and threads must not grow, and the throughput must not fall.

    Returns:
        A text for each quantity that got worse, such as the memory, that says how it changed; empty if none did.

    Raises:
        ValueError: there are too few readings to compare.
    """
    quarter = len(series) // 4
    if quarter < FEWEST_SAMPLES:
        raise ValueError(f"readings: found {len(series)}; allowed: {4 * FEWEST_SAMPLES} or more")
    first, last = series[:quarter], series[-quarter:]
    said = {}
    before, after = (float(np.median([r.resident_bytes for r in part])) for part in (first, last))
    if after > before * (1 + GROWTH):
        said["memory"] = f"grew by {after / before - 1:.1%}, from {before:,.0f} to {after:,.0f} bytes"
    for name in ("descriptors", "threads"):
        most, now = (max(getattr(r, name) for r in part) for part in (first, last))
        if now > most:
            said[name] = f"grew from {most} to {now}"
    rates = [[r.gradient_steps_per_processor_s for r in part] for part in (last, first)]
    low, high = ratio_interval(*rates)
    if high < 1 / (1 + DRIFT):
        said["throughput"] = f"fell to {low:.3f} to {high:.3f} of what it was"
    return said


def rows_of(fusion: Fusion, series: Sequence[Reading]) -> Sequence[SoakResult]:
    """Return the readings as rows of suite "soak", one per quantity.

    Args:
        series: the readings, in order. `not_flat` of each row holds what `verdicts` returns for them.
    """
    said, rows = verdicts(series), []
    for quantity in (field.name for field in fields(Reading)):
        samples = tuple(float(asdict(reading)[quantity]) for reading in series)
        rows.append(
            SoakResult(
                suite=SOAK,
                workload=WORKLOAD,
                primitive="training",
                mapping=str(MAPPING),
                fusion=str(fusion),
                not_flat=said,
                quantity=quantity,
                provenance=Provenance.MEASURED,
                value=float(np.median(samples)),
                samples=samples,
                timed=HowTimed(conditions=conditions()),
            )
        )
    return rows


def soak(fusion: Fusion, seconds: float, report: Report) -> Sequence[SoakResult]:
    """Train for some seconds, and return the readings as rows (`rows_of`)."""
    return rows_of(fusion, list(readings(fusion, seconds, report)))


def table(rows: Sequence[SoakResult]) -> str:
    """Return the results as Markdown: each quantity in the first and the last quarter, then what is not flat."""
    cells = []
    for fusion in dict.fromkeys(row.fusion for row in rows):
        mine = [row for row in rows if row.fusion == fusion]
        for row in mine:
            quarter = len(row.samples) // 4
            first, last = np.median(row.samples[:quarter]), np.median(row.samples[-quarter:])
            cells.append(
                [f"fusion {fusion}: {row.quantity} ({row.unit})", f"{first:,.0f}", f"{last:,.0f}", ""]
            )
        changed = mine[0].not_flat or {}
        cells += [[f"fusion {fusion}: **{name}**", "", "", text] for name, text in changed.items()]
    columns = ("quantity", "first quarter, median", "last quarter, median", "not flat")
    return "\n".join(section("Training for a long time", columns, cells))


def not_flat(rows: Sequence[SoakResult]) -> list[str]:
    """Return a line for each quantity that did not stay the same."""
    told = {row.fusion: row.not_flat or {} for row in rows}
    return [
        f"fusion {fusion}: {name} {text}" for fusion, found in told.items() for name, text in found.items()
    ]


def bench(
    minutes: Annotated[float, typer.Option("--minutes", min=2, help="Minutes in total.")] = 60,
) -> Bench[SoakResult]:
    """Train for a long time, and check that memory, open files, threads and throughput stay the same.

    Exit status 1 if one of them does not.
    """
    fusions = (Fusion.ROUND, Fusion.STEP, Fusion.NONE)
    seconds = minutes * 60 / len(fusions)
    cells = [
        cell(f"{SOAK}/{fusion}/{minutes:g}", partial(soak, fusion, seconds), seconds) for fusion in fusions
    ]
    return Bench(SOAK, SoakResult, cells, table, selecting=("minutes",), wrong=not_flat)
