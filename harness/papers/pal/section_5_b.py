"""Times gradient steps with parallel learners in threads, over numbers of actor and learner threads (PAL V-B).

Each of L learner threads samples B / L transitions on its own, and their gradients are averaged in memory
(`primitives.training.parallel`); environment steps are held to the workload's update interval. Every split of threads
is a whole training. All trainings take turns, one stretch each, in interleaved rounds, pinned to as many cores as
they have threads. On fewer than 3 cores nothing is timed: an actor and two learners would share a core, and an actor
and one learner would not.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.loop.schedule import Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.mapping.target import NATIVE_MAPPING
from placerl.harness.measure import statistics
from placerl.harness.measure.conditions import pinned, usable_cores
from placerl.harness.measure.turns import Rounds, in_rounds
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.cells import experiment_cells
from placerl.harness.papers.evidence import Paired, paired, rows_of
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.runtime.native_threads import ThreadedTraining
from placerl.harness.runtime.resolve import resolve

PRIMITIVE = "training.gradient_step"
WORKLOADS = ("hopper-ddpg", "pendulum-sac", "cartpole-dqn")
TIERS = ("standard", "full")
CAPACITY, LEARNING_STARTS = 20_000, 1_000
"""Replay capacity and steps before learning of every training here, small so that replays fill quickly."""
STRETCH_STEPS = 100
FEWEST_CORES = 3
"""One for the actor, and one for each of two learners."""


@dataclass(frozen=True)
class Split(Columns):
    """One configuration that is timed, a training with so many actor threads and learner threads, and its columns.

    Attributes:
        null: whether it is the second, identical copy of a configuration, which shows the noise (the A/A null).
        cores, steps: cores that this process may use, and gradient steps of a stretch.
    """

    actors: int
    learners: int
    null: bool = False
    cores: int = 0
    steps: int = 0


EXPERIMENT = Experiment(
    "learner threads", "gradient steps over actor and learner threads", "time_per_call", Split
)


def splits(cores: int) -> list[Split]:
    """Return the splits into 1 or 2 actor and 1 or 2 learner threads that have at most one thread per core.

    Each split occurs twice; the second copy shows the noise.
    """
    return [Split(a, n, null) for a in (1, 2) for n in (1, 2) if a + n <= cores for null in (False, True)]


def measure(
    name: str, report: Report, rounds: int = statistics.PAIRS, steps: int = STRETCH_STEPS
) -> Sequence[Row]:
    """Time gradient steps of one workload with every split of threads between actors and learners.

    Returns:
        One measurement per split: seconds per gradient step of all learners together. If this process may use fewer
        than `FEWEST_CORES` cores, or the workload's environment has no native version, there is only one, which was
        not run.
    """
    item = workloads.load(name)
    for field, value in (("replay.capacity", CAPACITY), ("training.learning_starts", LEARNING_STARTS)):
        item = workloads.override(item, field, value, EXPERIMENT)
    mapping, cores = Mapping.parse(NATIVE_MAPPING), usable_cores()
    fields: dict[str, Any] = {
        "workload": name,
        "primitive": PRIMITIVE,
        "backend": "native",
        "device": NATIVE_MAPPING,
        "batch_size": item.training.batch_size,
        "quantity": "time_per_call",
    }

    def not_run(needs: str) -> Sequence[Row]:
        return [EXPERIMENT.not_run(f"not run: needs {needs}", **fields)]

    if len(cores) < FEWEST_CORES:
        return not_run(f"{FEWEST_CORES} cores, one per thread; this process may use {len(cores)}")
    with ExitStack() as stack:
        trainings = {}
        for split in splits(len(cores)):
            schedule = Schedule(
                actors=split.actors, processes=split.actors, learners=split.learners, threads_native=True
            )
            try:
                trainings[split] = ThreadedTraining(resolve(schedule, item, mapping))
            except UserError as error:
                return not_run(f"a native environment: {error}")
            stack.callback(trainings[split].close)
            trainings[split].warm_up()

        def turn(split: Split) -> float:
            with pinned(cores[: split.actors + split.learners]):
                progress = trainings[split].advance(steps)
            return progress.wall_s / progress.gradient_steps

        timed = in_rounds(
            {split: partial(turn, split) for split in trainings}, Rounds(rounds, warm_up=1), report=report
        )
    return [
        EXPERIMENT.summary(timed[split], replace(split, cores=len(cores), steps=steps), **fields)
        for split in timed
    ]


def _over_one(frame: pd.DataFrame, name: str) -> Paired | None:
    """Return the gain of a second learner next to one actor; None without the rows, or if threads shared a core."""
    rows = {
        (row.parameters.learners, row.parameters.null): row
        for row in rows_of(frame, EXPERIMENT, "time_per_call", workload=name)
        if row.parameters.actors == 1 and row.parameters.cores >= FEWEST_CORES
    }
    if any((learners, null) not in rows for learners in (1, 2) for null in (False, True)):
        return None
    return paired(f"{name}: 2 learners over 1", rows[2, False], rows[2, True], rows[1, False], at_most=2)


class TwoLearnersAreFaster(Claim):
    """Checks PAL V-B: parallel learners raise the throughput of learning.

    PAL's learners sample a batch each (V-B); here two divide one batch, which is the harder case: they synchronise as
    often for half of the samples. Two that are faster with halves are faster with whole batches, too; two that are
    slower contradict nothing.
    """

    key, place, position = "PAL-V-B", "V-B", 2
    statement = "Parallel learners, each of which samples on its own, raise the throughput of learning"
    needs = f"{FEWEST_CORES} cores or more, one per thread, and the experiment PAL-V-B (claim/PAL-V-B, tier standard)"
    measured_by = tuple(
        experiment_cells(f"PAL-V-B/{name}", partial(measure, name), TIERS, estimate_s=60.0)
        for name in WORKLOADS
    )

    def judge(self, frame: pd.DataFrame) -> Finding:
        compared = [comparison for name in WORKLOADS if (comparison := _over_one(frame, name))]
        if not compared:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        ours = tuple(one.gain for one in compared)
        faster, slower = (
            sum(one.outcome.verdict == word for one in compared) for word in ("faster", "slower")
        )
        explanation = (
            f"Two learner threads, each with half of a batch, are faster than one in {faster} of {len(compared)} "
            f"workloads, slower in {slower}. Each had one actor thread, and every thread a core of its own. PAL's "
            "learners sample a batch each, with which the threads synchronise half as often a sample: halves can show "
            "the statement, and not refute it."
        )
        shown = faster == len(compared)
        return Finding(Outcome.IN_KIND if shown else Outcome.NO_VERDICT, ours, explanation)
