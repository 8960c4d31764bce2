"""Measures what re-allocating actor threads to training brings next to an accelerator (PRL 3.3.1, Algorithm 1).

Two threads act or train, next to a learner on an accelerator, in iterations of two gradient steps:

| allocation | threads | batch |
|---|---|---|
| re-allocated | as Algorithm 1 moves them, after each iteration | as Algorithm 1 divides it |
| all act | both act | the accelerator takes all of it, and keeps the weights |
| half trains | one acts, one trains | half of it each, for the accelerator and the thread |

With the learner on the simulated FPGA of MAP's platform, seconds are virtual: each thread has a core, the threads' work
is measured, the FPGA's cycles are simulated or come from formulas, and the links' seconds from the platform. An OpenCL
device runs in real time. If it is the processor itself, it is no accelerator: its rows are listed and not judged.
Transfers are not counted, so virtual time is judged without a latency only.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import HowTimed, Row
from placerl.harness.loop.schedule import Environments, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.mapping.assignments import CPU, Assignment
from placerl.harness.measure import statistics
from placerl.harness.measure.conditions import conditions
from placerl.harness.measure.turns import Rounds, in_rounds
from placerl.harness.papers.base import Claim, Finding, Outcome, by_a_model, decided
from placerl.harness.papers.cells import TierLimits, claim_cell
from placerl.harness.papers.evidence import number, rows_of
from placerl.harness.papers.experiments import Columns, Experiment, gain_of_times
from placerl.harness.papers.number import from_text
from placerl.harness.papers.prl.section_6_4 import FEWEST_CORES
from placerl.harness.papers.slow_links import NOT_COUNTED
from placerl.harness.runtime.learners.gradient_graphs import gradient_graphs
from placerl.harness.runtime.reallocation import Allocation, Times, reallocate
from placerl.harness.runtime.resolve import resolve
from placerl.harness.runtime.training import Training
from placerl.harness.store.cell import Cell
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives.learner.fpga import fpga_backend

COMMANDS = ("placerl reproduce --only PRL-3.3.1 --tier full", "placerl report")
GAIN = "throughput_ratio"


@dataclass(frozen=True)
class Compared(Columns):
    """Columns of the rows.

    Attributes:
        fixed: the allocation that re-allocation is compared with.
        accelerator: the learner's device.
        reached: threads that act, threads that train, and samples of a batch that these take, at the end.
    """

    fixed: str
    accelerator: str
    verdict: str
    rounds: int
    reached: list[int]
    seconds_with: list[float]
    seconds_without: list[float]


EXPERIMENT = Experiment("PRL-3.3.1", "training with re-allocation next to an accelerator", GAIN, Compared)
MAPPINGS = ("fpga-native-cpu", "opencl-native-cpu")
THREADS, OVERLAP, SETTLING = 2, 2, 12
"""Threads that act or train, gradient steps of an iteration, and iterations before the timed ones."""
MOVED, AGAIN = "re-allocated", "the same again"
ALL_ACT, HALF_TRAINS = "all act", "half trains"
FIXED = (ALL_ACT, HALF_TRAINS)
TIERS = {"full": {"hopper-ddpg": 1024}}
"""Batch size of each workload, by tier. PRL gains where the learner has large batches (6.4)."""


def measure(
    item: Workload,
    mapping: Mapping,
    batch_size: int,
    budget_s: float,
    report: Report,
    rounds: int = statistics.PAIRS,
    settling: int = SETTLING,
) -> Sequence[Row]:
    """Time trainings with re-allocation and with each fixed allocation, in the same interleaved rounds.

    Args:
        settling: iterations before the timed ones, in which Algorithm 1 moves work.

    Returns:
        One row per fixed allocation: the throughput with re-allocation over its own, with a verdict in a column; or
        one row that says why the mapping does not run here.
    """
    fields: dict[str, Any] = {
        "workload": item.name,
        "primitive": "training",
        "backend": "placerl",
        "device": str(mapping),
        "batch_size": batch_size,
        "quantity": GAIN,
    }
    item = workloads.override(item, "training.actors", THREADS, str(EXPERIMENT))
    with ExitStack() as stack:
        trainings: dict[str, Training] = {}
        try:
            for name in (MOVED, AGAIN, *FIXED):
                trainings[name] = stack.enter_context(closing(_training(name, item, mapping, batch_size)))
        except UserError as error:
            return [EXPERIMENT.not_run(f"not run: needs {error}", **fields)]
        for training in trainings.values():
            training.fill()
            training.take(settling * OVERLAP)
        turns = {name: partial(training.advance, OVERLAP) for name, training in trainings.items()}
        fewest = min(rounds, statistics.FEWEST_PAIRS)
        progress_of = in_rounds(turns, Rounds(rounds, fewest, budget_s=budget_s, warm_up=1), report=report)
        reallocator = trainings[MOVED].reallocator
        assert reallocator is not None
        reached, provenance = reallocator.allocation, Provenance(trainings[MOVED].provenance)
    fields["timed"] = HowTimed(conditions=conditions())
    seconds = {name: [progress.wall_s for progress in each] for name, each in progress_of.items()}
    rows = []
    for name in FIXED:
        comparison = statistics.compare(seconds[MOVED], seconds[name], seconds[AGAIN])
        columns = Compared(
            name,
            Assignment.of(mapping).learner,
            comparison.verdict,
            comparison.pairs,
            [reached.actors, reached.trainers, reached.trained_beside],
            seconds[MOVED],
            seconds[name],
        )
        rows.append(EXPERIMENT.row(columns, provenance=provenance, **gain_of_times(comparison), **fields))
    return rows


def _training(name: str, item: Workload, mapping: Mapping, batch_size: int) -> Training:
    # The paper's actors step Gymnasium's environments: what moving one gains depends on what a step takes.
    schedule = Schedule(
        processes=THREADS,
        overlap=OVERLAP,
        reallocate=name != ALL_ACT,
        environments=Environments.GYMNASIUM,
    )
    training = Training(resolve(schedule, item, mapping, batch_size))
    if name == HALF_TRAINS:
        assert training.reallocator is not None
        training.reallocator.fix(Allocation(THREADS - 1, 1, batch_size, batch_size // 2))
    return training


_WORDS = {ALL_ACT: "all threads act", HALF_TRAINS: "a thread trains on half of each batch"}


def _counts(row: Any) -> bool:
    """Return whether the threads had a core each, next to a device that is not the CPU: in virtual time always."""
    if row.provenance != Provenance.MEASURED:
        return True
    cores = row.timed.conditions.get("cores", ())
    return len(cores) >= FEWEST_CORES and row.parameters.accelerator not in (None, CPU)


def _reached(row: Any) -> str:
    actors, trainers, beside = row.parameters.reached
    threads = f"{actors} thread{'s' * (actors != 1)}"
    return f"{threads} acted and {trainers} trained on {beside} samples of a batch ({row.device})"


def cycle_requests(tier: TierLimits) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield functions that look up the clock cycles that the cells of a tier need, each with a name."""
    for name, size in TIERS.get(tier.name, {}).items():
        yield f"{name}, parts of {size}", partial(_gradients_of_parts, workloads.load(name), size)


def _gradients_of_parts(item: Workload, batch_size: int) -> None:
    """Look up the gradients of the parts of a batch that re-allocation may leave to the learner."""
    algorithm = algorithm_of(item)
    for size in sorted(_learner_parts(batch_size)):
        for variant in algorithm.variants:
            for graph in gradient_graphs(algorithm, size, variant):
                fpga_backend.node_cycles(graph.graph)


def _learner_parts(batch_size: int) -> set[int]:
    """Return the samples of a batch that Algorithm 1 may leave to the learner, and the fixed allocations do."""
    waiting, reached = [Allocation(THREADS, 0, batch_size)], set[Allocation]()
    while waiting:
        now = waiting.pop()
        if now not in reached:
            reached.add(now)
            waiting += [reallocate(now, Times(*longest)) for longest in np.eye(4).tolist()]
    return {batch_size // 2, *(allocation.parts[0] for allocation in reached)}


def cells(tier: TierLimits) -> list[Cell]:
    """Return the cells (pieces of the plan) that time trainings, one per workload and mapping, in the full tier."""
    return [
        claim_cell(
            f"{EXPERIMENT}/{name}/{mapping}",
            tier.experiment_s,
            partial(measure, workloads.load(name), Mapping.parse(mapping), size, tier.experiment_s),
            Provenance.SIMULATED if mapping.startswith("fpga") else Provenance.MEASURED,
        )
        for name, size in TIERS.get(tier.name, {}).items()
        for mapping in MAPPINGS
    ]


class MovingActorsGains(Claim):
    """Checks PRL 3.3.1, 6.4: re-allocation brings throughput over the allocation in which all threads act.

    The fixed division in halves is shown, and not judged: the paper compares with none. Neither are trainings in real
    time without a core for each thread, or whose OpenCL device is the CPU.
    """

    key, place, position = "PRL-3.3.1", "3.3.1, Algorithm 1; 6.4", 1
    statement = "Re-allocating actor threads to training next to an accelerator raises throughput"
    published = from_text("PRL.reallocation_gain_low", "PRL.reallocation_gain_high")
    needs = (
        "trainings with fixed allocations and with re-allocation (`placerl reproduce --tier full`); those in real "
        f"time count on {FEWEST_CORES} cores or more, with an OpenCL device that is not the CPU"
    )
    commands = COMMANDS
    measured_by = (cells,)

    def judge(self, frame: pd.DataFrame) -> Finding:
        rows = [row for row in rows_of(frame, EXPERIMENT, GAIN) if row.status == "ok"]
        judged = [row for row in rows if row.parameters.fixed == ALL_ACT and _counts(row)]
        ours = tuple(
            number(
                row,
                f"{row.workload}, batch size {int(row.batch_size)}, {row.device}: throughput with re-allocation over "
                f"that where {_WORDS[row.parameters.fixed]}",
            )
            for row in rows
        )
        if not judged:
            return Finding(Outcome.NOT_RUN, ours, needs=self.needs)
        real = [row for row in judged if row.provenance == Provenance.MEASURED]
        verdicts = [row.parameters.verdict for row in real or judged]
        faster, slower = verdicts.count("faster"), verdicts.count("slower")
        kind = "measured" if real else "in virtual time"
        said = f"Trainings {kind}: {len(verdicts)}; faster with re-allocation: {faster}; slower: {slower}. "
        said += f"At the end {'; '.join(map(_reached, judged))}."
        if not real:
            said += f" {NOT_COUNTED}"
            unknown = "The threads' cores are assumed, and the learner's device is simulated."
            return by_a_model(faster == len(verdicts), ours, said, unknown=unknown)
        return Finding(decided(faster == len(verdicts), slower), ours, said)
