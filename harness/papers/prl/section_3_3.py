"""Measures what PRL's runtime hides behind other work, by switching each of it off (PRL 3.2.1, 3.3.2).

| switched off | then |
|---|---|
| deferred insertion | transitions are inserted between two iterations, not during a gradient step |
| double-buffered weights | new weights reach the actors when these have stopped, not while they act |
| streamed batches | a gradient step begins when the whole batch has arrived, not its first transition |

Whole trainings run in interleaved rounds, with learner and replay management on the simulated FPGA of MAP's platform
and actors that act during the gradient steps. Their seconds are virtual: the host's work is measured, the FPGA's is
simulated, and modelled where formulas give a learner's cycles; each row states the weakest of these. That a learner
works on streamed transitions one after another is assumed, and cannot make it slower, so that gain is not judged.
"""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import pandas as pd

from placerl.harness import workloads
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.core.row import HowTimed, Row
from placerl.harness.loop.schedule import Environments, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.measure import statistics
from placerl.harness.measure.conditions import conditions
from placerl.harness.measure.turns import Rounds, in_rounds
from placerl.harness.papers.base import Claim, Finding, Outcome, by_a_model, decided
from placerl.harness.papers.cells import TierLimits, claim_cell
from placerl.harness.papers.evidence import number, rows_of
from placerl.harness.papers.experiments import Columns, Experiment, gain_of_times
from placerl.harness.papers.slow_links import NOT_COUNTED
from placerl.harness.runtime.resolve import resolve
from placerl.harness.runtime.training import Training
from placerl.harness.store.cell import Cell
from placerl.harness.workloads import Workload

COMMANDS = ("placerl reproduce --only PRL-3.3.2", "placerl report")
GAIN = "throughput_ratio"


@dataclass(frozen=True)
class SwitchedOff(Columns):
    """Columns of the rows: the part, the verdict, the seconds that it hides, of each round, and the options."""

    part: str
    verdict: str
    hidden_s: float | None
    rounds: int
    seconds_with: list[float]
    seconds_without: list[float]
    options: dict[str, Any]


EXPERIMENT = Experiment("PRL-3.3.2", "training without a part of PRL's runtime", GAIN, SwitchedOff)
MAPPING = Mapping.parse("fpga-fpga-cpu")
OVERLAP = 32
"""Gradient steps of an iteration."""
ON = Schedule(overlap=OVERLAP, deferred_insertion=True, environments=Environments.GYMNASIUM)
NULL = "the same again"
INSERTION, WEIGHTS = "deferred insertion", "double-buffered weights"
OFF = {INSERTION: replace(ON, deferred_insertion=False), WEIGHTS: replace(ON, single_buffered=True)}
HIDDEN = {INSERTION: ("insert", "write"), WEIGHTS: ("publish",)}
"""The terms (parts of the training loop) whose seconds each can hide."""
STREAMED = "streamed batches"
SIDES = {"": ON, NULL: ON, **OFF, STREAMED: replace(ON, streamed=True)}
"""Schedule of each training that is timed, by what differs from the one named ""."""
TIERS = {"standard": {"cartpole-dqn": 32}, "full": {"cartpole-dqn": 32, "cartpole-ddpg": 256}}
"""Batch size of each workload, by tier."""
SIMULATED_TRAININGS = {tier: {name: {size} for name, size in sizes.items()} for tier, sizes in TIERS.items()}
"""Batch sizes whose clock cycles the trainings here need."""


def measure(
    item: Workload, batch_size: int, budget_s: float, report: Report, rounds: int = statistics.PAIRS
) -> Sequence[Row]:
    """Time trainings with PRL's runtime, and without each part of it, in the same interleaved rounds.

    Returns:
        One row per part: throughput with it over that without it, with a verdict in a column.
    """
    with ExitStack() as stack:
        trainings = {}
        for name, schedule in SIDES.items():
            training = Training(resolve(schedule, item, MAPPING, batch_size))
            trainings[name] = stack.enter_context(closing(training))
            training.warm_up()
        turns = {name: partial(training.advance, OVERLAP) for name, training in trainings.items()}
        fewest = min(rounds, statistics.FEWEST_PAIRS)
        plan = Rounds(rounds, fewest, budget_s=budget_s, warm_up=1)
        progress_of = in_rounds(turns, plan, report=report)
        seconds = {name: [progress.wall_s for progress in each] for name, each in progress_of.items()}
        provenances = {name: Provenance(training.provenance) for name, training in trainings.items()}
    rows = []
    for name in (*OFF, STREAMED):
        with_s, without_s = (seconds[name], seconds[""]) if name == STREAMED else (seconds[""], seconds[name])
        hidden_s = [
            sum(one.terms_s.get(term, 0.0) for term in HIDDEN.get(name, ())) for one in progress_of[""]
        ]
        comparison = statistics.compare(with_s, without_s, None if name == STREAMED else seconds[NULL])
        hides_s = median(hidden_s) if name in HIDDEN else None
        rows.append(
            EXPERIMENT.row(
                SwitchedOff(
                    name, comparison.verdict, hides_s, comparison.pairs, with_s, without_s, ON.given()
                ),
                workload=item.name,
                primitive="training",
                backend="placerl",
                device=str(MAPPING),
                batch_size=batch_size,
                quantity=GAIN,
                provenance=weakest(provenances[""], provenances[name]),
                timed=HowTimed(conditions=conditions()),
                **gain_of_times(comparison),
            )
        )
    return rows


def cells(tier: TierLimits) -> list[Cell]:
    """Return the cells (pieces of the plan) that time the trainings, one per workload; none in the quick tier."""
    return [
        claim_cell(
            f"{EXPERIMENT}/{name}",
            tier.experiment_s,
            partial(measure, workloads.load(name), size, tier.experiment_s),
            Provenance.SIMULATED,
        )
        for name, size in TIERS.get(tier.name, {}).items()
    ]


class OverlapHidesTime(Claim):
    """Checks PRL 3.2.1 and 3.3.2: deferred insertion and double-buffered weights hide time that training waits for."""

    key, place, position = "PRL-3.3.2", "3.2.1, 3.3.2", 2
    statement = "Deferred insertion and double-buffered weights hide their time behind other work"
    needs = (
        "trainings on the simulated FPGA with each part switched off (`placerl reproduce --tier standard`)"
    )
    commands = COMMANDS
    decides = "more rounds with and without each part, next to an accelerator whose transfers take time"
    measured_by = (cells,)

    def judge(self, frame: pd.DataFrame) -> Finding:
        rows = [row for row in rows_of(frame, EXPERIMENT, GAIN) if row.status == "ok"]
        if not rows:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        ours = tuple(
            number(row, f"{row.workload}, batch size {int(row.batch_size)}: gain of {row.parameters.part}")
            for row in rows
        )
        judged = [row.parameters.verdict for row in rows if row.parameters.part in OFF]
        faster, slower = judged.count("faster"), judged.count("slower")
        shares = [
            row.parameters.hidden_s / median(row.parameters.seconds_with)
            for row in rows
            if row.parameters.hidden_s is not None
        ]
        said = (
            f"Of {len(judged)} comparisons with a part switched off, the part brings throughput in {faster} and costs "
            f"some in {slower}, beyond the noise. What it hides takes at most {max(shares, default=0):.2%} of an "
            f"iteration. {NOT_COUNTED} Streaming is modelled and not judged. The paper states no gain of its own for "
            "any of them."
        )
        everywhere = bool(judged) and faster == len(judged)
        if all(
            number.provenance is Provenance.MODELLED for number in ours
        ):  # with the learner on the FPGA, as here
            unknown = "The model does not know what else the accelerator's units wait for."
            return by_a_model(everywhere, ours, said, unknown=unknown)
        return Finding(decided(everywhere, slower), ours, said)
