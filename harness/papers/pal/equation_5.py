"""Divides this machine's cores between the actors and the learners of a workload by PAL's Equation 5, and checks it.

The two curves of the equation are measured, not assumed to be linear: what x cores collect, each with an actor thread,
and what x cores learn, each with a learner thread, which samples the workload's batches ahead itself. With a replay
manager for each learner, which samples them in its stead, a learner takes two cores. The division that Equation 5 gives
is then run in turns with its neighbours, which have one core more or less for the actors, or one learner more or less;
none for the actors means that one thread acts and learns in turns. `placerl run --auto` trains with the division, and
`placerl bench splits` checks it.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from placerl.harness import workloads
from placerl.harness.core.errors import OptionName, UserError
from placerl.harness.core.progress import Report, part
from placerl.harness.core.row import Row
from placerl.harness.loop.schedule import Schedule
from placerl.harness.mapping.strategies.actors_learners import CoreAllocation, allocate
from placerl.harness.measure import statistics
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.papers.experiments import Experiment
from placerl.harness.papers.pal.figure_10_runs import (
    CAPACITY,
    COLLECTION,
    CONSUMPTION,
    MAPPING,
    STARTS,
    STRETCH_S,
    STRETCHES,
    TRAINING,
    Cores,
    collection,
    consumption,
    curve,
    timed,
    training,
)
from placerl.harness.runtime.resolve import resolve, runs_free
from placerl.harness.store.cell import Cell
from placerl.harness.store.rows import ClaimRow
from placerl.harness.store.store import Run
from placerl.harness.workloads import Workload

EXPERIMENT = Experiment(
    "PAL-Eq5",
    "actors and learners on the cores that Equation 5 gives them, and on others",
    "environment_steps_per_s gradient_steps_per_s",
    Cores,
)


class Split(NamedTuple):
    """Numbers of cores, each with one thread: of actors (0: the learner's thread acts in turns), of learners, and of
    their replay managers.
    """

    actors: int
    learners: int
    managers: int = 0

    def __str__(self) -> str:
        if not self.actors:
            return "actors and learner in turns on 1 core"
        if self.managers:
            return (
                f"{self.actors} for actors, {self.learners} for learners, {self.managers} for their managers"
            )
        return f"{self.actors} for actors and {self.learners} for learners"


class Neighbour(NamedTuple):
    """A division of the cores next to the chosen one.

    Attributes:
        split: the division.
        rate: its gradient steps per second, the median.
        ratio, low, high: those of the chosen one over its own, the median over the rounds with its 95% interval.
    """

    split: Split
    rate: float
    ratio: float
    low: float
    high: float

    @property
    def interval(self) -> str:
        """Return the ratio and its interval as text."""
        return f"{self.ratio:.3g} [{self.low:.3g}, {self.high:.3g}]"


def check(item: Workload, *, managed: bool = False) -> None:
    """Check that C++ threads can train a workload on the cores of this process.

    Args:
        managed: whether each learner has a replay manager.

    Raises:
        UserError: there are fewer cores than kinds of threads, or these cannot.
    """
    option, fewest = OptionName("auto"), 2 + managed
    if (cores := len(usable_cores())) < fewest:
        allowed = f"at least {fewest} cores that this process may use: one of actors, one of learners"
        allowed += ", one of their replay managers" * managed
        raise UserError(item.name, option, f"{cores} core{'s' * (cores > 1)}", allowed)
    if not runs_free(item, MAPPING):
        allowed = f"a workload that trains with C++ threads, under {MAPPING}"
        raise UserError(item.name, option, item.name, allowed)
    resolve(Schedule(processes=1, threads_native=True, replay_beside=managed), item, MAPPING)


def cell(item: Workload, *, managed: bool = False) -> Cell:
    """Return the cell (unit of work of a run) that measures the curves, the chosen division and its neighbours."""
    counts = sum(len(_counts(item, kind, managed)) for kind in (COLLECTION, CONSUMPTION)) + 3
    size = item.training.batch_size
    estimate_s = counts * (STRETCHES + 2) * STRETCH_S
    key = f"{EXPERIMENT}/{item.name}/{size}/{item.training.actors}"
    if ahead := item.training.presampled_batches:
        key += f"/{ahead}-ahead" + "-managed" * managed

    def measured(run: Run, report: Report) -> Sequence[Row]:
        return measure(item, report, managed=managed)

    return Cell(key, estimate_s, measured, item.name, batch_size=size)


def measure(
    item: Workload,
    report: Report,
    stretches: int = STRETCHES,
    stretch_s: float = STRETCH_S,
    *,
    managed: bool = False,
) -> Sequence[Row]:
    """Measure both curves, choose the division by Equation 5, and run it in turns with its neighbours.

    The replay is small, so that filling it takes no time.

    Args:
        stretches: rounds, in each of which every configuration works for one stretch.
        stretch_s: about how long a stretch is, seconds.
        managed: whether each learner has a replay manager, on a core of its own.

    Returns:
        A row for each number of cores of the curves, and for each division that was run.
    """
    needed = item.training.batch_size * (item.training.presampled_batches + 1)
    changes = {
        "replay.capacity": min(item.replay.capacity, max(CAPACITY, needed)),
        "training.learning_starts": min(item.training.learning_starts, STARTS),
    }
    small = item
    for field, value in changes.items():
        small = workloads.override(small, field, value, EXPERIMENT)
    with ExitStack() as stack:
        curves = [
            collection(small, count, stack, int(managed)) for count in _counts(item, COLLECTION, managed)
        ]
        curves += [
            consumption(small, count, stack, count * managed) for count in _counts(item, CONSUMPTION, managed)
        ]
        rows = timed(small, curves, stretches, stretch_s, part(report, 0, 1, 2, "the curves"), EXPERIMENT)
    chosen = chosen_split(rows, item)
    with ExitStack() as stack:
        runs = [
            training(small, actors, learners, stack, managers)
            for actors, learners, managers in (chosen, *neighbours(chosen, item))
        ]
        trained = part(report, 1, 1, 2, "the division and its neighbours")
        rows += timed(small, runs, stretches, stretch_s, trained, EXPERIMENT)
    return rows


def _counts(item: Workload, kind: str, managed: bool) -> list[int]:
    """Return the numbers of threads for which one side's curve is measured; cores are left for one of the other."""
    cores, each = len(usable_cores()), 1 + managed
    if kind == COLLECTION:
        return [count for count in range(1, cores - each + 1) if count <= item.training.actors]
    return [count for count in range(1, (cores - 1) // each + 1) if item.training.batch_size % count == 0]


def allocation(rows: Sequence[Row], item: Workload) -> CoreAllocation:
    """Return the division of Equation 5 for the measured curves, with the throughput that it predicts.

    Args:
        rows: rows of `measure`.
    """
    collected, consumed, each = curve(rows, COLLECTION), curve(rows, CONSUMPTION), 1 + _managed(rows)

    def learned(cores: int) -> float:
        return consumed(cores) if cores >= each else 0.0

    return allocate(collected, learned, len(usable_cores()), item.training.update_interval)


def _managed(rows: Sequence[Row]) -> bool:
    """Return whether each learner had a replay manager."""
    return any(isinstance(row, ClaimRow) and EXPERIMENT.read(row.parameters).manager_cores for row in rows)


def chosen_split(rows: Sequence[Row], item: Workload) -> Split:
    """Return the division of Equation 5 for the measured curves.

    Args:
        rows: rows of `measure`.
    """
    found, managed = allocation(rows, item), _managed(rows)
    learners = found.learner_cores // (1 + managed)
    return Split(found.actor_cores, learners, learners * managed)


def neighbours(chosen: Split, item: Workload) -> list[Split]:
    """Return the divisions with one core more or less for the actors, and those with one learner more or less.

    A learner takes its cores, with those of its replay manager, from the actors, or gives them to these.

    Args:
        chosen: the division whose neighbours are meant.
    """
    actors, learners, managed = chosen.actors, chosen.learners, bool(chosen.managers)
    moves = ((-1, 0), (-1 - managed, 1), (1, 0), (1 + managed, -1))
    found = [Split(actors + more, learners + other, (learners + other) * managed) for more, other in moves]
    if actors == 1 and not managed:
        found[:2] = [Split(0, 1)]
    return [
        one
        for one in found
        if one.learners > 0
        and (one.actors > 0 or one == (0, 1, 0))
        and sum(one) <= len(usable_cores())
        and one.actors <= item.training.actors
        and item.training.batch_size % one.learners == 0
    ]


def compared(rows: Sequence[Row]) -> list[Neighbour]:
    """Return the chosen division's rate over that of each neighbour.

    Args:
        rows: rows of `measure`, of which the first of a training is the chosen division's.
    """
    chosen, *others = _trainings(rows)
    found = []
    for row in others:
        ratios = np.divide(chosen.samples, row.samples)
        low, high = float(ratios.min()), float(ratios.max())
        if len(ratios) >= statistics.FEWEST_SAMPLES:
            low, high = statistics.interval(ratios, in_order=True)
        rate = float(np.median(row.samples))
        found.append(Neighbour(_split(row), rate, float(np.median(ratios)), low, high))
    return found


def lines(rows: Sequence[Row], item: Workload) -> list[str]:
    """Return in words what was chosen, what it reached, and what it lost against its neighbours.

    Args:
        rows: rows of `measure`.
    """
    predicted, (chosen, *_) = allocation(rows, item), _trainings(rows)
    reached = float(np.median(chosen.samples))
    said = [
        f"Equation 5 divides {len(usable_cores())} cores: {_split(chosen)}; predicted "
        f"{predicted.gradient_steps_per_s:,.0f} gradient steps/s, reached {reached:,.0f} "
        f"({predicted.gradient_steps_per_s / reached - 1:+.1%})"
    ]
    found = compared(rows)
    said += [
        f"neighbour, {one.split}: {one.rate:,.0f} gradient steps/s; the choice is {one.interval} times as fast"
        for one in found
    ]
    if not found:
        return [*said, "it has no neighbours"]
    lost = max(1 - one.ratio for one in found)
    return [*said, f"lost against its neighbours: {max(0.0, lost):.1%}"]


def _trainings(rows: Sequence[Row]) -> list[ClaimRow]:
    return [row for row in rows if isinstance(row, ClaimRow) and row.backend == TRAINING]


def _split(row: ClaimRow) -> Split:
    stated = EXPERIMENT.read(row.parameters)
    return Split(stated.actor_cores, stated.learner_cores, stated.manager_cores)
