"""Measures throughput over cores: of actors, of learners and of whole trainings (PAL Fig. 10 and 12).

First the two curves of PAL's Equation 5 are measured (V-D): the environment steps per second that x cores collect,
each with one actor thread, and the gradient steps per second that x cores take, each with one learner thread. Then
whole trainings are run (VI-E, VI-G): on one core, where actor and learner take turns; on each number of cores, with
the split that Equation 5 gives for the curves; and on the most cores with every split that divides environments and
batch. Threads share both equally, so their numbers are multiples of 24 here, which every number of `CORES` divides.
The threads are C++ threads on one replay (`primitives.training.parallel`), as many as a configuration has cores, to
which they are pinned. All configurations of a phase take turns, one stretch of time each, in interleaved rounds. PAL's
LunarLander has no native environment: the cart-pole takes its place.

Numbers for more cores than the machine has are modelled, and marked so: each curve continues with the contention that
was measured on it (`extrapolated`), Equation 5 splits the cores, and the result is scaled by the ratio of the largest
training that was run to what Equation 5 predicts for it.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from harness import workloads
from harness.core.progress import Report, part
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.core.suites import Experiment, Suite
from harness.mapping import Mapping
from harness.mapping.strategies.actors_learners import CoreAllocation, allocate
from harness.measure.conditions import conditions, pinned, usable_cores
from harness.measure.rows import summary_row
from harness.measure.turns import Rounds, in_rounds
from harness.papers import charts, evidence
from harness.papers.base import Finding, Outcome
from harness.papers.cells import TierLimits, claim_cell
from harness.papers.charts import Panel
from harness.papers.evidence import detail, number
from harness.papers.number import Number, checked_baseline, from_text, ratio
from harness.runtime import native_threads
from harness.runtime.native_threads import LEAD, ThreadedTraining
from harness.runtime.options import Options
from harness.runtime.training import Progress
from harness.store.cell import Cell
from harness.workloads import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXPERIMENT = Experiment(
    "PAL-F10", "actors and learners over cores", "environment_steps_per_s gradient_steps_per_s"
)
WORKLOADS = ("cartpole-dqn", "ant-ddpg")  # PAL VI-A
TIERS = ("standard", "full")
MAPPING = Mapping.parse(native_threads.MAPPING)
CORES = (1, 2, 3, 4, 6, 8)  # PAL's machine has 8
ACTORS = 24
"""Environments, divided among the actor threads: a multiple of every number of `CORES`."""
BATCH_SIZES = {"cartpole-dqn": 48, "ant-ddpg": 240}
"""Transitions per gradient step of each workload, divided among the learner threads: multiples of every number of
`CORES`. PAL states no batch size."""
CAPACITY, STARTS = 20_000, 1_000
"""Of every training's replay, and environment steps before it learns, so that filling takes no time."""
STRETCHES = 9
STRETCH_S = 0.5
COLLECTION, CONSUMPTION, TRAINING = "collection", "consumption", "training"
NEEDS_CURVES = "actor and learner throughput over cores (claim/PAL-F10, tier standard)"
LINEAR = 0.8
"""Throughput on n cores is linear if it is at least this share of n times one core's throughput."""
SATURATED = 1.15
"""Throughput is saturated if more cores raise it by less than this factor."""


class Count(NamedTuple):
    """The number of steps that a configuration took in one stretch of time, and the stretch's length in seconds."""

    steps: int
    wall_s: float


class Subject(NamedTuple):
    """A configuration that is running, and that is timed in turns with others.

    Attributes:
        kind: `COLLECTION` (actors alone), `CONSUMPTION` (learners alone) or `TRAINING` (both).
        actor_cores, learner_cores: number of cores of each; 0 and 1 if actor and learner take turns on one core.
        advance: works for about the given number of seconds, and returns the number of steps and the seconds taken.
    """

    kind: str
    actor_cores: int
    learner_cores: int
    advance: Callable[[float], Count]


def measure(
    name: str, report: Report, stretches: int = STRETCHES, stretch_s: float = STRETCH_S
) -> list[Measurement]:
    """Measure the throughput of one workload over cores: of actors alone, of learners alone, and of whole trainings.

    The first two give the curves that PAL's Equation 5 uses to split cores between actors and learners.

    Args:
        name: name of the workload.
        report: called with the work done, the total work, and a text that names the current work.
        stretches: stretches of time per configuration.
        stretch_s: seconds per stretch.

    Returns:
        One measurement per configuration: `environment_steps_per_s` of the actors alone, `gradient_steps_per_s` of
        the learners alone and of training. The details hold the numbers of cores.
    """
    item = workloads.load(name)
    changes = (
        ("training.actors", ACTORS),
        ("training.batch_size", BATCH_SIZES[name]),
        ("replay.capacity", CAPACITY),
        ("training.learning_starts", STARTS),
    )
    for place, value in changes:
        item = workloads.override(item, place, value, EXPERIMENT)
    usable = len(usable_cores())
    cores = [count for count in CORES if count <= usable and _divides(count, count, item)]
    rows: list[Measurement] = []
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
    """Return the ways of dividing cores between actors and learners with which training is timed.

    For each number of cores this is the division that PAL's Equation 5 chooses; for the largest number it is every
    division. A division counts only if environments and batch can be divided equally among its threads.

    Args:
        rows: the measured throughputs of actors and of learners over cores.
        item: the workload.
        cores: the numbers of cores, ascending.

    Returns:
        Pairs (actor cores, learner cores), sorted.
    """
    collected, consumed = curve(rows, COLLECTION), curve(rows, CONSUMPTION)
    interval = item.training.update_interval
    found = {(count, total - count) for total in cores[-1:] for count in range(1, total)}
    for total in cores:
        if total >= 2:
            chosen = allocate(collected, consumed, total, interval)
            found.add((chosen.actor_cores, chosen.learner_cores))
    return sorted(split for split in found if _divides(*split, item))


def _divides(actors: int, learners: int, item: Workload) -> bool:
    """Whether so many threads each get the same number of environments, or of a batch's transitions."""
    return item.training.actors % actors == 0 and item.training.batch_size % learners == 0


def curve(rows: Sequence[Measurement], kind: str) -> Callable[[int], float]:
    """Return a function that gives the throughput on a number of cores.

    Between measurements it stays at that of fewer cores: threads that share environments or batch unequally cannot be
    run, so a further core is idle. Equation 5 then chooses only numbers of cores that were measured.

    Args:
        rows: the measured throughputs over cores.
        kind: which of them: `COLLECTION` (actors alone) or `CONSUMPTION` (learners alone).
    """
    points = sorted(
        (row.details["actor_cores"] + row.details["learner_cores"], row.value or 0.0)
        for row in rows
        if row.backend == kind
    )
    xs, ys = zip(*points, strict=True)
    assert all(a < b for a, b in pairwise(xs))
    return lambda cores: float(ys[max(0, bisect_right(xs, cores) - 1)])


def _threads(
    item: Workload, actors: int, learners: int, stack: ExitStack, lead: int = LEAD
) -> ThreadedTraining:
    options = Options(processes=actors, learners=learners, threads_native=True)
    with pinned(_first(actors + learners)):
        training = ThreadedTraining(item, MAPPING, options=options, lead=lead)
        stack.callback(training.close)
        training.warm_up()
    return training


def _adapting(kind: str, cores: tuple[int, int], advance: Callable[[int], Progress]) -> Subject:
    """Return a subject whose stretches have about the asked length, from the rate of the last one."""
    rate = 10.0

    def steps_of(done: Progress) -> int:
        return done.environment_steps if kind == COLLECTION else done.gradient_steps

    def stretch(seconds: float) -> Count:
        nonlocal rate
        progress = advance(max(1, round(rate * seconds)))
        rate = steps_of(progress) / progress.wall_s
        return Count(steps_of(progress), progress.wall_s)

    return Subject(kind, *cores, stretch)


def _collection(item: Workload, cores: int, stack: ExitStack) -> Subject:
    return _adapting(COLLECTION, (cores, 0), _threads(item, cores, 1, stack).collect)


def _consumption(item: Workload, cores: int, stack: ExitStack) -> Subject:
    return _adapting(CONSUMPTION, (0, cores), _threads(item, 1, cores, stack).learn)


def _training(item: Workload, actor_cores: int, learner_cores: int, stack: ExitStack) -> Subject:
    """Return a training; without cores of their own the actors take turns with the learner on its core."""
    lead = LEAD if actor_cores else 0
    training = _threads(item, max(1, actor_cores), learner_cores, stack, lead)
    return _adapting(TRAINING, (actor_cores, learner_cores), training.advance)


def _first(cores: int) -> list[int]:
    return usable_cores()[:cores]


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
    """Return the steps per second of one stretch."""
    with pinned(_first(subject.actor_cores + subject.learner_cores)):
        done = subject.advance(stretch_s)
    return done.steps / done.wall_s


def _row(item: Workload, subject: Subject, rates: Sequence[float]) -> Measurement:
    steps = "environment" if subject.kind == COLLECTION else "gradient"
    return summary_row(
        rates,
        suite=Suite.CLAIM,
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


def cells(tier: TierLimits) -> list[Cell]:
    """Return the cells (pieces of the plan) that measure throughput over cores, one per workload.

    The quick tier has none, because they would take too long.

    Args:
        tier: the tier of the plan (`quick`, `standard` or `full`), which says how much a run measures.
    """
    if tier.name not in TIERS:
        return []
    return [claim_cell(f"{EXPERIMENT}/{name}", 90.0, partial(measure, name)) for name in WORKLOADS]


def rows_of(frame: pd.DataFrame, workload: str, kind: str) -> list[Any]:
    """Return the stored measurements of one workload and one kind of configuration, as named tuples.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
        workload: name of the workload.
        kind: `COLLECTION` (actors alone), `CONSUMPTION` (learners alone) or `TRAINING` (both).
    """
    return evidence.rows_of(frame, EXPERIMENT, workload=workload, backend=kind)


def workloads_of(frame: pd.DataFrame) -> list[str]:
    return [name for name in WORKLOADS if rows_of(frame, name, TRAINING)]


def cores_of(row: Any) -> tuple[int, int]:
    return int(detail(row, "actor_cores")), int(detail(row, "learner_cores"))


def found_split(frame: pd.DataFrame, workload: str, cores: int) -> CoreAllocation:
    """Return the division of cores between actors and learners that PAL's Equation 5 gives for measured throughputs.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
        workload: name of the workload.
        cores: number of cores to divide.
    """
    curves = [curve(rows_of(frame, workload, kind), kind) for kind in (COLLECTION, CONSUMPTION)]
    interval = int(detail(rows_of(frame, workload, TRAINING)[0], "update_interval"))
    return allocate(curves[0], curves[1], cores, interval)


def extrapolated(measured: Sequence[tuple[int, float]]) -> Callable[[int], float]:
    """Return a curve of throughput over cores that continues beyond the measured numbers of cores.

    Beyond them it is f(n) = n f(1) / (1 + s (n - 1)), where s >= 0, the contention, is such that the curve meets the
    last measured point (Gunther 2007, "Guerrilla Capacity Planning", chapter 4, without coherence). Between measured
    points it is linear.

    Args:
        measured: (cores, throughput) of at least two numbers of cores, one core among them, ascending.
    """
    xs, ys = zip(*measured, strict=True)
    most, last = xs[-1], ys[-1]
    serial = max(0.0, (most * ys[0] / last - 1) / (most - 1))

    def at(cores: int) -> float:
        if cores <= most:
            return float(np.interp(cores, xs, ys))
        return cores * ys[0] / (1 + serial * (cores - 1))

    return at


def modelled(frame: pd.DataFrame, name: str) -> list[CoreAllocation]:
    """Return the predicted training throughput on PAL's numbers of cores beyond those of this machine.

    PAL's Equation 5 divides the cores between actors and learners by curves that are extrapolated from measurements.
    Its throughput is then scaled by the ratio of measured to predicted throughput on the most cores that were run,
    because actors and learners together are slower than each alone.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
        name: name of the workload.

    Returns:
        For each number of cores the division and its throughput; empty if the measurements are not sufficient.
    """
    rows = {cores_of(row): row for row in rows_of(frame, name, TRAINING)}
    curves = [
        extrapolated(points)
        for kind in (COLLECTION, CONSUMPTION)
        if len(points := sorted((sum(cores_of(row)), row.value) for row in rows_of(frame, name, kind))) > 1
    ]
    most = max(map(sum, rows))
    if len(curves) < 2 or most < 2:
        return []
    interval = int(detail(rows_of(frame, name, TRAINING)[0], "update_interval"))
    seen = found_split(frame, name, most)
    ran = rows.get((seen.actor_cores, seen.learner_cores))
    if ran is None:
        return []
    scale = ran.value / seen.gradient_steps_per_s
    found = [allocate(curves[0], curves[1], cores, interval) for cores in CORES if cores > most]
    return [replace(one, gradient_steps_per_s=scale * one.gradient_steps_per_s) for one in found]


MODELLED = "equation 5 on curves that go on with the contention measured on fewer cores"


def _checked_alone(frame: pd.DataFrame, workload: str, alone: Number) -> Number:
    """Return the training in turns on one core, suspect if collection and consumption imply a much higher rate.

    A gradient step in turns takes the time of its environment steps plus its own.
    """
    rows = [row for kind in (COLLECTION, CONSUMPTION) for row in rows_of(frame, workload, kind)]
    on_one = {row.backend: row.value for row in rows if sum(cores_of(row)) == 1}
    if set(on_one) != {COLLECTION, CONSUMPTION}:
        return alone
    interval = int(detail(rows[0], "update_interval"))
    return checked_baseline(alone, interval / on_one[COLLECTION] + 1 / on_one[CONSUMPTION])


def _divides_in_proportion(frame: pd.DataFrame, workload: str, cores: int) -> bool:
    """Return whether so many whole cores, divided between actors and learners, could be linear at all.

    The best division is that of threads that scale perfectly, from both rates on one core, over their training in
    turns there. If one side takes nearly all of the time, a core for the other one is idle, whatever scales how.
    """
    collected, consumed = (
        curve(rows_of(frame, workload, kind), kind)(1) for kind in (COLLECTION, CONSUMPTION)
    )
    collected /= int(detail(rows_of(frame, workload, TRAINING)[0], "update_interval"))
    best = max(min(actors * collected, (cores - actors) * consumed) for actors in range(1, cores))
    return best * (1 / collected + 1 / consumed) >= LINEAR * cores


def scaling(frame: pd.DataFrame) -> Finding:
    """Check PAL Fig. 10: throughput is linear in the cores, and then saturates.

    The reference is a training on one core, where actor and learner take turns. Saturation is judged by what more
    cores than the published number bring over exactly that number. PAL's saturates because one GPU takes every
    gradient; learners on cores have no such bottleneck, so throughput that goes on growing refutes nothing.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    linear_below, saturated_above = (
        int(n.value) for n in from_text("PAL.linear_scaling_below", "PAL.saturation_above")
    )
    ours: list[Number] = []
    linear: dict[str, list[Number]] = {}  # each compared with the share that counts as linear
    last: dict[str, Number] = {}  # of the most cores over the number at which PAL's saturate
    most = 0
    for name in workloads_of(frame):
        rows = {cores_of(row): row for row in rows_of(frame, name, TRAINING)}
        alone = _checked_alone(frame, name, number(rows[0, 1], f"{name}, 1 core"))
        rates = {1: alone}
        linear[name] = []
        most = max(most, *map(sum, rows))
        for cores in (count for count in CORES if 1 < count <= max(map(sum, rows))):
            split = found_split(frame, name, cores)
            row = rows.get((split.actor_cores, split.learner_cores))
            if row is None:
                continue
            words = f"{name}, {cores} cores ({split.actor_cores} for actors): throughput over 1 core"
            rates[cores] = number(row, words)
            gain = ratio(words, rates[cores], alone, at_most=cores)
            ours.append(gain)
            if cores < linear_below and _divides_in_proportion(frame, name, cores):
                linear[name].append(ratio(f"{words}, over proportion", gain, _exactly(LINEAR * cores)))
        ours += [
            Number(
                f"{name}, {one.actor_cores + one.learner_cores} cores ({one.actor_cores} for actors): throughput over "
                "1 core",
                one.gradient_steps_per_s / alone.value,
                "ratio",
                Provenance.MODELLED,
                MODELLED,
            )
            for one in modelled(frame, name)
        ]
        if max(rates) > saturated_above and saturated_above in rates:
            words = f"{name}: throughput on {max(rates)} cores over {saturated_above}"
            before = rates[saturated_above]
            last[name] = ratio(words, rates[max(rates)], before, at_most=max(rates) / saturated_above)
    if not ours:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_CURVES)
    if not last:
        needs = f"trainings on {saturated_above} and on more cores; the most here have {most}"
        return Finding(Outcome.NOT_RUN, tuple(ours), needs=needs)
    ours += last.values()
    explanation = (
        f"Linear: below {linear_below} cores at least {LINEAR:.0%} of proportion; saturated: above {saturated_above} "
        f"cores less than {SATURATED:g} times as fast as on {saturated_above}. The learners are this machine's cores, "
        "where PAL's gradients came from one GPU, its reason for the saturation: growth that goes on refutes nothing."
    )
    if uneven := [name for name, found in linear.items() if not found]:
        explanation += (
            f" For {', '.join(uneven)} fewer than {linear_below} whole cores cannot be divided so that actors and "
            "learners are both busy: whether it is linear is not shown."
        )
    if any(n.below(1) for found in linear.values() for n in found):
        return Finding(Outcome.NOT_REPRODUCED, tuple(ours), explanation)
    holds = all(
        linear[name]
        and all(n.above(1) for n in linear[name])
        and name in last
        and last[name].below(SATURATED)
        for name in linear
    )
    return Finding(Outcome.IN_KIND if holds else Outcome.NO_VERDICT, tuple(ours), explanation)


def _exactly(value: float) -> Number:
    return Number("limit", value, "ratio", Provenance.MEASURED, low=value, high=value)


def draw(frame: pd.DataFrame) -> "Figure | None":
    """Draw throughput over cores: of training with the split by Equation 5, of actors alone and of learners alone.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    linear, saturated = (n.value for n in from_text("PAL.linear_scaling_below", "PAL.saturation_above"))
    panels = []
    for name in workloads_of(frame):
        rows = {cores_of(row): row for row in rows_of(frame, name, TRAINING)}
        beyond = [
            (
                one.actor_cores + one.learner_cores,
                Number("modelled", one.gradient_steps_per_s, "1/s", Provenance.MODELLED, MODELLED),
            )
            for one in modelled(frame, name)
        ]
        trained = [(1, rows[0, 1])] if (0, 1) in rows else []
        for cores in (count for count in CORES if 1 < count <= max(map(sum, rows))):
            split = found_split(frame, name, cores)
            if (row := rows.get((split.actor_cores, split.learner_cores))) is not None:
                trained.append((cores, row))
        curves = {
            kind: sorted((sum(cores_of(row)), row) for row in rows_of(frame, name, kind))
            for kind in (COLLECTION, CONSUMPTION)
        }
        panels.append(
            Panel(
                "cores",
                "gradient or environment steps (1/s)",
                [
                    charts.line(label, [(cores, number(row, label)) for cores, row in some])
                    for label, some in (
                        ("training, gradient steps", trained),
                        ("collection alone, environment steps", curves[COLLECTION]),
                        ("consumption alone, gradient steps", curves[CONSUMPTION]),
                    )
                ]
                + ([charts.line("training beyond this machine", beyond)] if beyond else []),
                name,
                log_y=True,
                published_x=[
                    ("linear below (published)", linear),
                    ("saturated above (published)", saturated),
                ],
            )
        )
    return charts.chart(*panels)
