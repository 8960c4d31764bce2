"""Actors and learners against cores (PAL VI-E, Fig. 10; V-D and VI-G, Fig. 12).

First the two curves of PAL's equation 5 are measured: the environment steps a second that x cores collect, each with a
process of actors, and the gradient steps a second that x cores take, each with a process of learners. Then whole
training runs: in turns on one core, on each number of cores under the split that equation 5 finds from the curves, and
on all cores under every split. Every configuration has as many cores as it has processes, to which it is pinned, and
all of a phase take turns, a stretch each, in interleaved rounds.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch

from harness import workloads
from harness.core.progress import Report, part
from harness.core.row import Measurement
from harness.mapping import Mapping
from harness.mapping.strategies.actors_learners import allocate
from harness.measure.conditions import conditions, pinned, set_blas_threads
from harness.measure.rows import sampled
from harness.measure.turns import Rounds, in_rounds
from harness.papers.cells import Tier, claim_cell
from harness.profile.cases.shared_parts import fill
from harness.profile.cases.storage import fitted
from harness.runtime.actors.pool import ActorPool
from harness.runtime.compose import compose
from harness.runtime.learners.processes import LearnerProcesses
from harness.runtime.training import Training
from harness.store.cell import Cell
from harness.workloads import Workload

EXPERIMENT = "PAL-F10"
WORKLOADS = ("lunarlander-dqn", "ant-ddpg")  # PAL VI-A
TIERS = ("standard", "full")
MAPPING = Mapping.parse("torch-native-cpu")
CORES = (1, 2, 4, 6, 8)  # PAL's machine has 8
ACTORS = 8  # environments, dealt out to the actors' processes
OVERLAP = 16
STRETCHES = 9
STRETCH_S = 0.5
COLLECTION, CONSUMPTION, TRAINING = "collection", "consumption", "training"


class Count(NamedTuple):
    """What a stretch took: steps of its kind, and seconds."""

    steps: int
    wall_s: float


class Subject(NamedTuple):
    """A configuration at work.

    Attributes:
        kind: `COLLECTION`, `CONSUMPTION` or `TRAINING`.
        actor_cores, learner_cores: that it has; a training in turns has one core, of the learner.
        advance: work for about so many seconds.
    """

    kind: str
    actor_cores: int
    learner_cores: int
    advance: Callable[[float], Count]


def measure(
    name: str, report: Report, stretches: int = STRETCHES, stretch_s: float = STRETCH_S
) -> list[Measurement]:
    """The curves and the training runs of one workload.

    Args:
        name: the workload's.
        report: called with the progress.
        stretches: of each configuration.
        stretch_s: seconds of a stretch.

    Returns:
        Rows of suite `claim`: `environment_steps_per_s` of collection, `gradient_steps_per_s` of consumption and of
        training, with their cores in the details.
    """
    item = workloads.override(fitted(workloads.load(name)), "training.actors", ACTORS, EXPERIMENT)
    usable = len(os.sched_getaffinity(0))
    cores = [count for count in CORES if count <= usable]
    rows: list[Measurement] = []
    # Cores are processes here: a second thread of a library would take the core of another, or half of its own.
    torch.set_num_threads(1)
    set_blas_threads(1)
    with ExitStack() as stack:
        curves = [_collection(item, count, stack) for count in cores]
        curves += [_consumption(item, count, stack) for count in cores]
        rows += _timed(item, curves, stretches, stretch_s, part(report, 0, 1, 2, f"{name}: the curves"))
    with ExitStack() as stack:
        runs = [_training(item, 0, 1, stack)]
        runs += [_training(item, *split, stack) for split in splits(rows, item, cores)]
        rows += _timed(item, runs, stretches, stretch_s, part(report, 1, 1, 2, f"{name}: training"))
    return rows


def splits(rows: Sequence[Measurement], item: Workload, cores: Sequence[int]) -> list[tuple[int, int]]:
    """Cores of actors and learners: what equation 5 finds for each number of cores, and every split of them all."""
    collected, consumed = curve(rows, COLLECTION), curve(rows, CONSUMPTION)
    interval = item.training.update_interval
    found = {(count, total - count) for total in cores[-1:] for count in range(1, total)}
    for total in cores:
        if total >= 2:
            chosen = allocate(collected, consumed, total, interval)
            found.add((chosen.actor_cores, chosen.learner_cores))
    return sorted(found)


def curve(rows: Sequence[Measurement], kind: str) -> Callable[[int], float]:
    """Throughput over cores: straight lines between what was measured."""
    points = sorted(
        (row.details["actor_cores"] + row.details["learner_cores"], row.value or 0.0)
        for row in rows
        if row.backend == kind
    )
    xs, ys = zip(*points, strict=True)
    assert all(a < b for a, b in pairwise(xs))
    return lambda cores: float(np.interp(cores, xs, ys))


def _collection(item: Workload, cores: int, stack: ExitStack) -> Subject:
    parts = compose(item, MAPPING, batch_size=item.training.batch_size, seed=0, local_storage=256)
    with pinned(_first(cores)):
        pool = ActorPool(parts.actors, parts.learner, cores)
    stack.callback(pool.close)

    def advance(seconds: float) -> Count:
        before, begin_s = pool.environment_steps, perf_counter()
        while perf_counter() - begin_s < seconds:
            pool.collect(64)
        return Count(pool.environment_steps - before, perf_counter() - begin_s)

    return Subject(COLLECTION, cores, 0, advance)


def _consumption(item: Workload, cores: int, stack: ExitStack) -> Subject:
    size = item.training.batch_size
    parts = compose(item, MAPPING, batch_size=size, seed=0, local_storage=1)
    fill(parts.replay, np.random.default_rng(0))
    learner = parts.learner
    if cores > 1:
        with pinned(_first(cores)):
            made = LearnerProcesses(learner.algorithm, processes=cores, batch_size=size)
        stack.callback(made.close)
        learner = made

    def advance(seconds: float) -> Count:
        steps, begin_s = 0, perf_counter()
        while perf_counter() - begin_s < seconds:
            sample = parts.replay.sample(size, parts.rng)
            outcome = learner.step(sample.batch, sample.weights)
            parts.replay.update_priorities(sample.indices, outcome.td_errors)
            steps += 1
        return Count(steps, perf_counter() - begin_s)

    return Subject(CONSUMPTION, 0, cores, advance)


def _training(item: Workload, actor_cores: int, learner_cores: int, stack: ExitStack) -> Subject:
    with pinned(_first(actor_cores + learner_cores)):
        training = Training(
            item,
            MAPPING,
            processes=actor_cores,
            overlap=OVERLAP if actor_cores else 0,
            learners=learner_cores,
        )
        stack.callback(training.close)
        training.warm_up()
    rate = 10.0

    def advance(seconds: float) -> Count:
        nonlocal rate
        progress = training.advance(max(1, round(rate * seconds)))
        rate = progress.gradient_steps / progress.wall_s
        return Count(progress.gradient_steps, progress.wall_s)

    return Subject(TRAINING, actor_cores, learner_cores, advance)


def _first(cores: int) -> list[int]:
    return sorted(os.sched_getaffinity(0))[:cores]


def _timed(
    item: Workload, subjects: Sequence[Subject], stretches: int, stretch_s: float, report: Report
) -> list[Measurement]:
    rates = in_rounds(
        {number: partial(_rate, subject, stretch_s) for number, subject in enumerate(subjects)},
        Rounds(stretches, warm_up=1),
        report=report,
    )
    return [_row(item, subject, rates[number]) for number, subject in enumerate(subjects)]


def _rate(subject: Subject, stretch_s: float) -> float:
    """Steps a second of one stretch."""
    with pinned(_first(subject.actor_cores + subject.learner_cores)):
        done = subject.advance(stretch_s)
    return done.steps / done.wall_s


def _row(item: Workload, subject: Subject, rates: Sequence[float]) -> Measurement:
    steps = "environment" if subject.kind == COLLECTION else "gradient"
    return sampled(
        rates,
        suite="claim",
        workload=item.name,
        primitive="training",
        backend=subject.kind,
        device=str(MAPPING),
        batch_size=item.training.batch_size,
        quantity=f"{steps}_steps_per_s",
        details={
            "experiment": EXPERIMENT,
            "actor_cores": subject.actor_cores,
            "learner_cores": subject.learner_cores,
            "update_interval": item.training.update_interval,
            "conditions": conditions(),
        },
    )


def cells(tier: Tier) -> list[Cell]:
    """A cell for each workload; none in the quick tier, which this would overrun."""
    if tier.name not in TIERS:
        return []
    return [claim_cell(f"{EXPERIMENT}/{name}", 90.0, partial(measure, name)) for name in WORKLOADS]
