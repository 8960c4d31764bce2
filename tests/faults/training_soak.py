"""Trains for a long time, and says whether memory, open files, threads and pace stayed the same."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import psutil

from placerl.harness import workloads
from placerl.harness.loop.schedule import Loop, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.measure.statistics import FEWEST_SAMPLES, ratio_interval
from placerl.harness.runtime.measured_run import Started, start
from placerl.harness.runtime.resolve import resolve
from placerl.harness.store.diff import DRIFT

CAPACITY = 5_000  # transitions: overwritten many times in minutes
STRETCH_S = 2.0
GROWTH = 0.01  # of resident memory that still counts as unchanged


@dataclass(frozen=True)
class Reading:
    """The state of the process after a stretch of training.

    Its gradient steps are counted per second of the process's processor time, which other programs do not change.
    """

    gradient_steps_per_processor_s: float
    resident_bytes: int
    descriptors: int
    threads: int


def readings(schedule: Schedule, loop: Loop | None, seconds: float) -> Iterator[Reading]:
    """Trains until the replay is full, then for some seconds more, with a reading every `STRETCH_S` of these."""
    item = workloads.override(
        workloads.load("hopper-ddpg"), "training.learning_starts", CAPACITY // 2, "soak"
    )
    item = workloads.override(item, "replay.capacity", CAPACITY, "soak")
    training = start(resolve(schedule, item, Mapping.parse("native-native-cpu"), loop=loop))
    process = psutil.Process(os.getpid())
    try:
        training.warm_up()
        steps = 50
        while training.environment_steps < CAPACITY:
            steps, _ = _stretch(training, steps)
        begin_s = time.monotonic()
        while time.monotonic() - begin_s < seconds:
            steps, rate = _stretch(training, steps)
            yield Reading(rate, process.memory_info().rss, process.num_fds(), process.num_threads())
    finally:
        training.close()


def _stretch(training: Started, steps: int) -> tuple[int, float]:
    """Takes gradient steps; returns the number for the next stretch, and the rate by processor time."""
    begin_s = time.process_time()
    progress = training.advance(steps)
    processor_s = time.process_time() - begin_s
    next_steps = max(1, round(progress.gradient_steps / progress.wall_s * STRETCH_S))
    return next_steps, progress.gradient_steps / processor_s


def not_flat(series: Sequence[Reading]) -> dict[str, str]:
    """Says what grew, or for the pace fell, from the first to the last quarter of the readings."""
    quarter = len(series) // 4
    assert quarter >= FEWEST_SAMPLES, f"only {len(series)} readings"
    first, last = series[:quarter], series[-quarter:]
    said = {}
    before, after = (float(np.median([r.resident_bytes for r in part])) for part in (first, last))
    if after > before * (1 + GROWTH):
        said["memory"] = f"grew by {after / before - 1:.1%}, from {before:,.0f} to {after:,.0f} bytes"
    for name in ("descriptors", "threads"):
        most, now = (max(getattr(r, name) for r in part) for part in (first, last))
        if now > most:
            said[name] = f"grew from {most} to {now}"
    low, high = ratio_interval(*([r.gradient_steps_per_processor_s for r in part] for part in (last, first)))
    if high < 1 / (1 + DRIFT):
        said["pace"] = f"fell to {low:.3f} to {high:.3f} of what it was"
    return said
