"""Divides this machine's cores between the actors and the learners of a workload by PAL's Equation 5, and checks it.

The two curves of the equation are measured, not assumed to be linear: what x cores collect, each with an actor thread,
and what x cores learn, each with a learner thread, which samples the workload's batches ahead itself. The division that
Equation 5 gives is then run in turns with its neighbours, which have one core more or less for the actors; none for the
actors means that one thread acts and learns in turns. `placerl run --auto` trains with the division, and `placerl bench
splits` checks it.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from placerl.harness import workloads
from placerl.harness.core.errors import OptionName, UserError
from placerl.harness.core.progress import Report, part
from placerl.harness.core.row import Row
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
from placerl.harness.runtime.resolve import runs_free
from placerl.harness.store.cell import Cell
from placerl.harness.store.rows import ClaimRow
from placerl.harness.workloads import Workload

EXPERIMENT = Experiment(
    "PAL-Eq5",
    "actors and learners on the cores that Equation 5 gives them, and on others",
    "environment_steps_per_s gradient_steps_per_s",
    Cores,
)
FEWEST_CORES = 2


class Split(NamedTuple):
    """Numbers of cores, each with one thread: of actors (0: the learner's thread acts in turns) and of learners."""

    actors: int
    learners: int

    def __str__(self) -> str:
        if not self.actors:
            return "actors and learner in turns on 1 core"
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


def check(item: Workload) -> None:
    """Check that C++ threads can train a workload on the cores of this process.

    Raises:
        UserError: there are fewer than two cores, or they cannot.
    """
    option = OptionName("auto")
    if (cores := len(usable_cores())) < FEWEST_CORES:
        allowed = f"at least {FEWEST_CORES} cores that this process may use: one of actors, one of learners"
        raise UserError(item.name, option, f"{cores} core", allowed)
    if not runs_free(item, MAPPING):
        allowed = f"a workload that trains with C++ threads, under {MAPPING}"
        raise UserError(item.name, option, item.name, allowed)


def cell(item: Workload) -> Cell:
    """Return the cell (unit of work of a run) that measures the curves, the chosen division and its neighbours."""
    counts = len(_counts(item, COLLECTION)) + len(_counts(item, CONSUMPTION)) + 3
    size = item.training.batch_size
    estimate_s = counts * (STRETCHES + 2) * STRETCH_S
    key = f"{EXPERIMENT}/{item.name}/{size}/{item.training.actors}"
    if ahead := item.training.presampled_batches:
        key += f"/{ahead}-ahead"
    return Cell(key, estimate_s, lambda _, report: measure(item, report), item.name, batch_size=size)


def measure(
    item: Workload, report: Report, stretches: int = STRETCHES, stretch_s: float = STRETCH_S
) -> Sequence[Row]:
    """Measure both curves, choose the division by Equation 5, and run it in turns with its neighbours.

    The replay is small, so that filling it takes no time.

    Args:
        stretches: rounds, in each of which every configuration works for one stretch.
        stretch_s: about how long a stretch is, seconds.

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
        curves = [collection(small, count, stack) for count in _counts(item, COLLECTION)]
        curves += [consumption(small, count, stack) for count in _counts(item, CONSUMPTION)]
        rows = timed(small, curves, stretches, stretch_s, part(report, 0, 1, 2, "the curves"), EXPERIMENT)
    chosen = chosen_split(rows, item)
    with ExitStack() as stack:
        runs = [training(small, *split, stack) for split in (chosen, *neighbours(chosen, item))]
        trained = part(report, 1, 1, 2, "the division and its neighbours")
        rows += timed(small, runs, stretches, stretch_s, trained, EXPERIMENT)
    return rows


def _counts(item: Workload, kind: str) -> list[int]:
    """Return the numbers of cores for which one side's curve is measured; a core is left for the other."""
    counts = range(1, max(FEWEST_CORES, len(usable_cores())))
    if kind == COLLECTION:
        return [count for count in counts if count <= item.training.actors]
    return [count for count in counts if item.training.batch_size % count == 0]


def allocation(rows: Sequence[Row], item: Workload) -> CoreAllocation:
    """Return the division of Equation 5 for the measured curves, with the throughput that it predicts.

    Args:
        rows: rows of `measure`.
    """
    collected, consumed = curve(rows, COLLECTION), curve(rows, CONSUMPTION)
    return allocate(collected, consumed, len(usable_cores()), item.training.update_interval)


def chosen_split(rows: Sequence[Row], item: Workload) -> Split:
    """Return the division of Equation 5 for the measured curves.

    Args:
        rows: rows of `measure`.
    """
    found = allocation(rows, item)
    return Split(found.actor_cores, found.learner_cores)


def neighbours(chosen: Split, item: Workload) -> list[Split]:
    """Return the divisions with one core more or less for the actors, which the learners give or take or do not.

    Args:
        chosen: the division whose neighbours are meant.
    """
    if chosen.actors == 1:
        fewer = [Split(0, 1)]
    else:
        fewer = [Split(chosen.actors - 1, chosen.learners + more) for more in (0, 1)]
    more = [Split(chosen.actors + 1, chosen.learners - less) for less in (0, 1)]
    cores = len(usable_cores())
    return [
        one
        for one in (*fewer, *more)
        if one.learners > 0
        and sum(one) <= cores
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
    lost = max((1 - one.ratio for one in found), default=0.0)
    return [*said, f"lost against its neighbours: {max(0.0, lost):.1%}"]


def _trainings(rows: Sequence[Row]) -> list[ClaimRow]:
    return [row for row in rows if isinstance(row, ClaimRow) and row.backend == TRAINING]


def _split(row: ClaimRow) -> Split:
    stated = EXPERIMENT.read(row.parameters)
    return Split(stated.actor_cores, stated.learner_cores)
