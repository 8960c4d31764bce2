"""Measures throughput over cores: of actors, of learners and of whole trainings (PAL Fig. 10 and 12).

First the two curves of PAL's Equation 5 are measured (V-D): the environment steps per second that x cores collect,
each with one actor thread, and the gradient steps per second that x cores take, each with one learner thread. Then
whole trainings are run (VI-E, VI-G): on one core, where actor and learner take turns; on each number of cores, with
the split that Equation 5 gives for the curves; and on the most cores with every split that divides environments and
batch. Threads share both equally, so their numbers are multiples of 24 here, which every number of `CORES` divides.
The threads are C++ threads on one replay (`primitives.training.parallel`), as many as a configuration has cores, to
which they are pinned. All configurations of a phase take turns, one stretch of time each, in interleaved rounds.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingABC
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from placerl.harness import workloads
from placerl.harness.core.progress import Report, part
from placerl.harness.core.row import Row
from placerl.harness.loop.schedule import Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.mapping.strategies.actors_learners import allocate
from placerl.harness.mapping.target import NATIVE_MAPPING
from placerl.harness.measure.conditions import pinned, usable_cores
from placerl.harness.measure.turns import Rounds, in_rounds
from placerl.harness.papers.cells import TierLimits, claim_cell
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.runtime.native_threads import LEAD, ThreadedTraining
from placerl.harness.runtime.resolve import resolve
from placerl.harness.runtime.training import Progress
from placerl.harness.store.cell import Cell
from placerl.harness.store.rows import ClaimRow
from placerl.harness.workloads import Workload


@dataclass(frozen=True)
class Cores(Columns):
    """Columns of the rows: the cores of actors and learners, and environment steps between gradient steps.

    `manager_cores` are those of the learners' replay managers, one each; 0 without these.
    """

    actor_cores: int
    learner_cores: int
    update_interval: int
    manager_cores: int = 0


EXPERIMENT = Experiment(
    "PAL-F10", "actors and learners over cores", "environment_steps_per_s gradient_steps_per_s", Cores
)
WORKLOADS = ("lunarlander-dqn", "ant-ddpg", "ant-sac")  # PAL VI-A
TIERS = ("standard", "full")
MAPPING = Mapping.parse(NATIVE_MAPPING)
CORES = (1, 2, 3, 4, 6, 8)  # PAL's machine has 8
ACTORS = 24
"""Environments, divided among the actor threads: a multiple of every number of `CORES`."""
BATCH_SIZES = {"lunarlander-dqn": 120, "ant-ddpg": 240, "ant-sac": 240}
"""Transitions per gradient step of each workload, divided among the learner threads: multiples of every number of
`CORES`, near the workloads' own. PAL states no batch size."""
INTERVAL = 1
"""Environment steps for each gradient step, in all of PAL's experiments (VI-A)."""
CAPACITY, STARTS = 20_000, 1_000
"""Of every training's replay, and environment steps before it learns, so that filling takes no time."""
STRETCHES = 9
STRETCH_S = 0.5
COLLECTION, CONSUMPTION, TRAINING = "collection", "consumption", "training"


class Count(NamedTuple):
    """The number of steps that a configuration took in one stretch of time, and the stretch's length in seconds."""

    steps: int
    wall_s: float


class Subject(NamedTuple):
    """A configuration that is running, and that is timed in turns with others.

    Attributes:
        kind: `COLLECTION` (actors alone), `CONSUMPTION` (learners alone) or `TRAINING` (both).
        cores: numbers of cores of actors, of learners and of their replay managers; 0, 1 and 0 if actor and learner
            take turns on one core.
        advance: works for about the given number of seconds, and returns the number of steps and the seconds taken.
    """

    kind: str
    cores: tuple[int, int, int]
    advance: Callable[[float], Count]


def as_in_pal(name: str, changes: MappingABC[str, object], source: object) -> Workload:
    """Return a workload with PAL's update interval (VI-A), and with further changes.

    Args:
        name: one of `WORKLOADS`.
        changes: values of fields, by the fields' paths such as "training.batch_size".
        source: what changes them, for the message of an error.
    """
    item = workloads.override(workloads.load(name), "training.update_interval", INTERVAL, source)
    for place, value in changes.items():
        item = workloads.override(item, place, value, source)
    return item


def measure(
    name: str, report: Report, stretches: int = STRETCHES, stretch_s: float = STRETCH_S
) -> Sequence[Row]:
    """Measure the throughput of one workload over cores: of actors alone, of learners alone, and of whole trainings.

    The first two give the curves that PAL's Equation 5 uses to split cores between actors and learners.

    Returns:
        One measurement per configuration: `environment_steps_per_s` of the actors alone, `gradient_steps_per_s` of
        the learners alone and of training. Columns hold the numbers of cores.
    """
    changes = {
        "training.actors": ACTORS,
        "training.batch_size": BATCH_SIZES[name],
        "replay.capacity": CAPACITY,
        "training.learning_starts": STARTS,
    }
    item = as_in_pal(name, changes, EXPERIMENT)
    usable = len(usable_cores())
    cores = [count for count in CORES if count <= usable and _divides(count, count, item)]
    rows: list[Row] = []
    with ExitStack() as stack:
        curves = [collection(item, count, stack) for count in cores]
        curves += [consumption(item, count, stack) for count in cores]
        rows += timed(item, curves, stretches, stretch_s, part(report, 0, 1, 2, f"{name}: the curves"))
    with ExitStack() as stack:
        runs = [training(item, 0, 1, stack)]
        runs += [training(item, *split, stack) for split in splits(rows, item, cores)]
        rows += timed(item, runs, stretches, stretch_s, part(report, 1, 1, 2, f"{name}: training"))
    return rows


def splits(rows: Sequence[Row], item: Workload, cores: Sequence[int]) -> list[tuple[int, int]]:
    """Return the ways of dividing cores between actors and learners with which training is timed.

    For each number of cores this is the division that PAL's Equation 5 chooses; for the largest number it is every
    division. A division counts only if environments and batch can be divided equally among its threads.

    Args:
        cores: the numbers of cores, ascending.
    """
    collected, consumed = curve(rows, COLLECTION), curve(rows, CONSUMPTION)
    interval = item.training.update_interval
    candidates = {(count, total - count) for total in cores[-1:] for count in range(1, total)}
    for total in cores:
        if total >= 2:
            chosen = allocate(collected, consumed, total, interval)
            candidates.add((chosen.actor_cores, chosen.learner_cores))
    return sorted(split for split in candidates if _divides(*split, item))


def _divides(actors: int, learners: int, item: Workload) -> bool:
    """Whether so many threads each get the same number of environments, or of a batch's transitions."""
    return item.training.actors % actors == 0 and item.training.batch_size % learners == 0


def curve(rows: Sequence[Any], kind: str) -> Callable[[int], float]:
    """Return a function that gives the throughput on a number of cores.

    Between measurements it stays at that of fewer cores: threads that share environments or batch unequally cannot be
    run, so a further core is idle. Equation 5 then chooses only numbers of cores that were measured.

    Args:
        kind: which of them: `COLLECTION` (actors alone) or `CONSUMPTION` (learners alone).
    """
    rates = [(EXPERIMENT.read(row.parameters), row.value or 0.0) for row in rows if row.backend == kind]
    points = sorted(
        (stated.actor_cores + stated.learner_cores + stated.manager_cores, rate) for stated, rate in rates
    )
    xs, ys = zip(*points, strict=True)
    assert all(a < b for a, b in pairwise(xs))
    return lambda cores: float(ys[max(0, bisect_right(xs, cores) - 1)])


def _threads(
    item: Workload, cores: tuple[int, int, int], stack: ExitStack, lead: int = LEAD
) -> ThreadedTraining:
    actors, learners, managers = cores
    schedule = Schedule(processes=actors, learners=learners, threads_native=True, replay_beside=managers > 0)
    with pinned(_first(sum(cores))):
        training = ThreadedTraining(resolve(schedule, item, MAPPING), lead=lead)
        stack.callback(training.close)
        training.warm_up()
    return training


def _adapting(kind: str, cores: tuple[int, int, int], advance: Callable[[int], Progress]) -> Subject:
    """Return a subject whose stretches have about the asked length, from the rate of the last one."""
    rate = 10.0

    def steps_of(done: Progress) -> int:
        return done.environment_steps if kind == COLLECTION else done.gradient_steps

    def stretch(seconds: float) -> Count:
        nonlocal rate
        progress = advance(max(1, round(rate * seconds)))
        rate = steps_of(progress) / progress.wall_s
        return Count(steps_of(progress), progress.wall_s)

    return Subject(kind, cores, stretch)


def collection(item: Workload, cores: int, stack: ExitStack, managers: int = 0) -> Subject:
    """Return the actors alone, on a number of cores, of a training with so many managers; `stack` closes them."""
    return _adapting(COLLECTION, (cores, 0, 0), _threads(item, (cores, 1, managers), stack).collect)


def consumption(item: Workload, learners: int, stack: ExitStack, managers: int = 0) -> Subject:
    """Return some learners alone, and their replay managers, on a core each; `stack` closes them."""
    training = _threads(item, (1, learners, managers), stack)
    return _adapting(CONSUMPTION, (0, learners, managers), training.learn)


def training(item: Workload, actors: int, learners: int, stack: ExitStack, managers: int = 0) -> Subject:
    """Return a training; without cores of their own the actors take turns with the learner on its core."""
    lead = LEAD if actors else 0
    training = _threads(item, (max(1, actors), learners, managers), stack, lead)
    return _adapting(TRAINING, (actors, learners, managers), training.advance)


def _first(cores: int) -> list[int]:
    return usable_cores()[:cores]


def timed(
    item: Workload,
    subjects: Sequence[Subject],
    stretches: int,
    stretch_s: float,
    report: Report,
    experiment: Experiment = EXPERIMENT,
) -> list[Row]:
    """Let configurations take turns in interleaved rounds, and return a row of an experiment for each.

    Args:
        stretches: rounds, in each of which every configuration works for one stretch.
        stretch_s: about how long a stretch is, seconds.
        experiment: its columns are `Cores`.
    """
    rates = in_rounds(
        {number: partial(_rate, subject, stretch_s) for number, subject in enumerate(subjects)},
        Rounds(stretches, warm_up=1),
        report=report,
    )
    return [_row(experiment, item, subject, rates[number]) for number, subject in enumerate(subjects)]


def _rate(subject: Subject, stretch_s: float) -> float:
    """Return the steps per second of one stretch."""
    with pinned(_first(sum(subject.cores))):
        done = subject.advance(stretch_s)
    return done.steps / done.wall_s


def _row(experiment: Experiment, item: Workload, subject: Subject, rates: Sequence[float]) -> ClaimRow:
    steps = "environment" if subject.kind == COLLECTION else "gradient"
    actors, learners, managers = subject.cores
    return experiment.summary(
        rates,
        Cores(actors, learners, item.training.update_interval, managers),
        workload=item.name,
        primitive="training",
        backend=subject.kind,
        device=str(MAPPING),
        batch_size=item.training.batch_size,
        quantity=f"{steps}_steps_per_s",
    )


def cells(tier: TierLimits) -> list[Cell]:
    """Return the cells (pieces of the plan) that measure throughput over cores, one per workload.

    The quick tier has none, because they would take too long.
    """
    if tier.name not in TIERS:
        return []
    return [claim_cell(f"{EXPERIMENT}/{name}", 90.0, partial(measure, name)) for name in WORKLOADS]
