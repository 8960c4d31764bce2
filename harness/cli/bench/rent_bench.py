"""Judges `placerl rent`: trains to a return on this machine, and compares with what its card predicts.

    placerl card -o card.json
    placerl bench rent --card card.json [--known BUNDLE] [--workloads cartpole-ppo] [--seeds 5]

Some seeds of each workload are trained until the return is reached and held, as `placerl bench time-to-return` trains
them (`harness.compare.curves`). The seconds of each are predicted as `placerl rent` does: the rate of the mapping that
is trained follows from the card and the known machines, the gradient steps from the curves of the other seeds.
Known machines of this one's kind are left out, since the goal is about machines that nobody has measured. Where that
leaves none with times of the workload, they do predict, and the goal is not judged: `--known` takes machines of others.

A workload's error is that of the median prediction from the median of what was achieved; that of single trainings also
holds how much seeds differ, which nothing predicts, and is for the intervals to cover. Nothing else should run
meanwhile. The same command goes on with an interrupted run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from placerl.harness import workloads
from placerl.harness.cli.bench.command import Bench, chosen, joined, section
from placerl.harness.cli.bench.time_to_return_bench import GROWTH
from placerl.harness.cli.common import KnownOption
from placerl.harness.compare.curves import CurveOf, Extent, seconds_to_return
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.machines.curves import of_rows
from placerl.harness.machines.rates import Times, rates
from placerl.harness.machines.renting import known_machines, machine, seconds_to
from placerl.harness.mapping.target import NATIVE_MAPPING
from placerl.harness.store.cell import Cell
from placerl.harness.store.rows import OURS, BenchResult, LearningCurve, PredictedRate
from placerl.harness.store.store import Run

SUITE = Suite.BENCH_RENT
WORKLOADS = (
    "cartpole-dqn",
    "cartpole-ddpg",
    "cartpole-ppo",
    "mountaincar-ddpg",
    "pendulum-sac",
    "pendulum-td3",
)
GAP = 1000
"""Environment steps between evaluations, at first."""
GOAL = 0.25
"""The largest error of a workload, in the median over workloads, that meets the goal."""
COLUMNS = ("workload", "predicted", "achieved", "error", "each", "rate", "held")


@dataclass(frozen=True, kw_only=True)
class RentedTraining(BenchResult, table="rented_training"):
    """The predicted seconds of a training to a return, with the interval of the prediction unless it is open.

    Attributes:
        seed: of the training.
        achieved_s: seconds in which it reached the return; None if it did not within its budget.
        held: whether the interval of the prediction holds them; of a training that did not reach it, whether it is
            open, since an open interval has seeds that never arrive.
        predicted_gps, achieved_gps: gradient steps per second.
        own_kind: whether only machines of this one's kind were known; None: not stated.
    """

    seed: int
    achieved_s: float | None = None
    held: bool
    predicted_gps: float
    achieved_gps: float
    own_kind: bool | None = None


def compared(
    item: workloads.Workload, rate: PredictedRate, trained: Sequence[LearningCurve], *, own_kind: bool = False
) -> list[RentedTraining]:
    """Return the prediction of each training that was not stopped by a failure, from the curves of the others.

    Args:
        rate: the predicted rate of the trainings' mapping, with a value.
        own_kind: whether it follows from machines of this one's kind alone.
        trained: trainings of the workload with one seed each.
    """
    size, level = item.training.batch_size, item.training.solved_return
    assert level is not None
    assert rate.value is not None
    steps = {curve.seed: curve.steps_to(level) for curve in of_rows(item, size, level, trained)}
    rows = []
    for row in trained:
        others = [needed for seed, needed in steps.items() if seed != row.seed]
        if row.seed not in steps or not others or not row.seconds_at or not row.gradient_steps:
            continue
        predicted, achieved_s = seconds_to(others, rate), seconds_to_return(row)
        never = not isfinite(predicted.value)
        whole = isfinite(predicted.high)
        rows.append(
            RentedTraining(
                suite=SUITE,
                workload=item.name,
                primitive="training",
                batch_size=size,
                quantity="predicted_time_to_threshold",
                provenance=Provenance.MODELLED,
                status="not_run" if never else "ok",
                reason="not run: needs a return that half of the other seeds reached" if never else "",
                value=None if never else predicted.value,
                low=predicted.low if whole else None,
                high=predicted.high if whole else None,
                seed=row.seed,
                achieved_s=achieved_s,
                held=predicted.low <= (inf if achieved_s is None else achieved_s) <= predicted.high,
                predicted_gps=rate.value,
                achieved_gps=row.gradient_steps / row.seconds_at[-1],
                own_kind=own_kind,
            )
        )
    return rows


def _errors(rows: Sequence[RentedTraining]) -> tuple[float, float, float] | None:
    """Return the medians of predicted and achieved seconds, and of the errors of trainings; None without any."""
    both = [(row.value, row.achieved_s) for row in rows if row.value and row.achieved_s]
    if not both:
        return None
    predicted, achieved = np.array(both).T
    each = np.median(np.abs(predicted / achieved - 1))
    return float(np.median(predicted)), float(np.median(achieved)), float(each)


def table(names: Sequence[str], rows: Sequence[RentedTraining]) -> str:
    """Return the results as Markdown: a line for each workload, and whether the goal is met."""
    lines, errors = [], []
    for name in names:
        mine = [row for row in rows if row.workload == name]
        if not mine:
            continue
        rate = np.median([row.predicted_gps / row.achieved_gps for row in mine]) - 1
        cells = ["", "", "none arrived", ""]
        if found := _errors(mine):
            predicted, achieved, each = found
            errors.append(abs(predicted / achieved - 1))
            cells = [f"{predicted:.3g}", f"{achieved:.3g}", f"{predicted / achieved - 1:+.0%}", f"{each:.0%}"]
        lines.append([name, *cells, f"{rate:+.0%}", f"{sum(row.held for row in mine)}/{len(mine)}"])
    text = [
        "# Seconds to a return: predicted from a card, and achieved",
        "",
        "Predicted (modelled) and achieved (measured): medians over seeds. Error: of the median; each: of single "
        "trainings, in the median; rate: of gradient steps per second; held: trainings within their 95% interval, or "
        "that did not arrive where it is open. Known machines of this kind (processor, cores, vectors and caches) do "
        "not predict, unless no other is known.",
        "",
        *section("Trainings", COLUMNS, lines),
    ]
    if errors:
        median = float(np.median(errors))
        said = "met" if median <= GOAL else "missed"
        if any(row.own_kind for row in rows):
            said = "not judged where only machines of this one's kind are known"
        elif len(errors) < len(WORKLOADS):
            said = "not judged on fewer"
        goal = f"goal over {len(WORKLOADS)}: at most {GOAL:.0%}, {said}"
        text.append(f"Median error of {len(errors)} workloads: {median:.1%} ({goal}).")
    return "\n".join(text)


def bench(
    card: Annotated[
        Path,
        typer.Option(
            "--card", metavar="FILE", help="Card of this machine, as `placerl card -o FILE` writes."
        ),
    ],
    known: KnownOption = None,
    names: Annotated[
        str, typer.Option("--workloads", help="Workloads with a return to reach, separated by commas.")
    ] = joined(WORKLOADS),
    seeds: Annotated[int, typer.Option("--seeds", min=2, help="Number of seeds, from 0.")] = 5,
    budget_s: Annotated[float, typer.Option("--budget-s", min=0.1, help="Seconds of each training.")] = 300.0,
) -> Bench[RentedTraining]:
    """Train to returns on this machine, and compare the seconds with what its card predicts for them."""
    some = [
        item for item in map(workloads.load, workloads.names()) if item.training.solved_return is not None
    ]
    asked = chosen("--workloads", names, [item.name for item in some])
    there, _ = machine(card)
    cells: list[Cell] = []
    for item in (workloads.load(name) for name in asked):
        size = item.training.batch_size
        every = known_machines(known or (), item.name, size)
        others = [one for one in every if one.card.facts.kind != there.facts.kind]
        own_kind = not any(
            (row.workload, row.batch_size) == (item.name, size) for one in others for row in one.rows
        )
        bundles = every if own_kind else others
        rated = rates(item, size, there, Times(bundles).on(there, item.name, size))
        rate = next((row for row in rated if row.mapping == NATIVE_MAPPING and row.value), None)
        if rate is None:
            reasons = "; ".join(row.reason for row in rated if row.reason)
            raise UserError(card, "times", f"none of {NATIVE_MAPPING} for {item.name}", reasons or "all")
        extent = Extent(GAP, GROWTH, budget_s=budget_s, threshold=item.training.solved_return or 0.0)
        trainings = [CurveOf(SUITE, OURS, OURS, item).cell(extent, seed, budget_s) for seed in range(seeds)]
        sources = "-".join(one.hash[:8] for one in (there, *bundles))
        of = f"{sources}/{budget_s:g}s/{seeds}"
        cells += [*trainings, _comparison(item, rate, trainings, of, own_kind)]
    return Bench(
        SUITE,
        RentedTraining,
        cells,
        partial(table, asked),
        selecting=("card", "known", "names", "seeds", "budget_s"),
    )


def _comparison(
    item: workloads.Workload, rate: PredictedRate, trainings: Sequence[Cell], of: str, own_kind: bool
) -> Cell:
    """Return the cell (a unit of work of a run) that compares trainings with their predictions.

    Args:
        of: what the predictions are from, for its key.
    """

    def measured(run: Run, report: Report) -> Sequence[RentedTraining]:
        rows = [row for one in trainings for row in one.rows(run) if isinstance(row, LearningCurve)]
        return compared(item, rate, rows, own_kind=own_kind)

    key, needs = f"{SUITE}/{item.name}/predicted/{of}", tuple(one.key for one in trainings)
    cell = Cell(key, 0.0, measured, needs=needs, stale=lambda run: cell.older_than_needed(run))
    return cell
