"""Judges predictions from cards: leaves out each machine in turn, and predicts it from the others.

    placerl bench cards [--workload cartpole-dqn] [--batch-size 32] [--bundles FOLDER] [--seconds 45]

The machines are the bundles in a folder, and variants of this one, whose bundles are measured where the folder lacks
them: one core, narrower vectors, a quota, a neighbour (`harness.machines.variants`). Nothing else should run meanwhile.
A prediction is judged by its error and by whether its 95% interval holds the time that was measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from placerl.harness.cli.bench.command import Bench, cell, chosen, joined, section
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.machines.bundle import Bundle
from placerl.harness.machines.predicting import BOUNDS, leave_one_out
from placerl.harness.machines.variants import VARIANTS, measured
from placerl.harness.store.rows import BenchResult

SUITE = Suite.BENCH_CARDS
SECONDS = 45.0
SUFFIX = ".json"


@dataclass(frozen=True, kw_only=True)
class CardPrediction(BenchResult, table="card_prediction"):
    """The predicted time of a piece on a machine that was left out, with the interval of the prediction.

    Attributes:
        machine: name of the machine's bundle, without its suffix.
        target: target of the piece.
        measured_s: seconds of a call there, measured.
        bound_by: what the prediction holds to bound the piece most.
    """

    machine: str
    target: str
    measured_s: float
    bound_by: str


def bundle_of(variant: str, workload: str, batch_size: int, seconds: float, folder: Path) -> Bundle:
    """Return the bundle of a variant of this machine, measured unless the folder holds it."""
    path = folder / f"{workload}-{batch_size}-{variant.replace(' ', '-')}{SUFFIX}"
    if path.exists():
        return Bundle.read(path)
    folder.mkdir(parents=True, exist_ok=True)
    return measured(VARIANTS[variant], workload, batch_size, seconds, path)


def predictions(machines: dict[str, Bundle]) -> list[CardPrediction]:
    """Return what the other machines predict for each piece of each machine."""
    names = list(machines)
    rows = []
    for one in leave_one_out(list(machines.values())):
        piece = one.predicted.row
        rows.append(
            CardPrediction(
                suite=SUITE,
                workload=piece.workload,
                primitive=piece.primitive,
                backend=piece.backend,
                device=piece.device,
                target=piece.target,
                batch_size=piece.batch_size,
                quantity="predicted_time_per_call",
                provenance=Provenance.MODELLED,
                value=one.predicted.time_s,
                low=one.predicted.low_s,
                high=one.predicted.high_s,
                machine=names[one.machine],
                measured_s=one.time_s,
                bound_by=max(BOUNDS, key=one.predicted.bounds.__getitem__),
            )
        )
    return rows


def table(rows: Sequence[CardPrediction]) -> str:
    """Return errors and coverage as Markdown, by machine and by kind of piece.

    Args:
        rows: what `predictions` returned.
    """
    by_machine: dict[str, list[CardPrediction]] = {}
    by_kind: dict[str, list[CardPrediction]] = {}
    for row in rows:
        by_machine.setdefault(row.machine, []).append(row)
        kind = f"{row.primitive.partition('.')[0]} on {row.backend}"
        by_kind.setdefault(kind, []).append(row)
    lines = ["# Predictions from cards, each machine left out in turn (modelled)", ""]
    for title, groups in (("By machine", by_machine), ("By kind of piece", by_kind)):
        cells = [[name, *_judged(group)] for name, group in groups.items()]
        lines += section(
            title, ("of", "pieces", "median error", "95% of errors within", "in interval"), cells
        )
    return "\n".join(
        [
            *lines,
            *section(
                "All", ("pieces", "median error", "95% of errors within", "in interval"), [_judged(rows)]
            ),
        ]
    )


def _judged(rows: Sequence[CardPrediction]) -> list[str]:
    errors = np.abs([(row.value or 0.0) / row.measured_s - 1 for row in rows])
    covered = np.mean([(row.low or 0.0) <= row.measured_s <= (row.high or 0.0) for row in rows])
    return [str(len(rows)), f"{np.median(errors):.1%}", f"{np.quantile(errors, 0.95):.1%}", f"{covered:.1%}"]


def bench(
    workload: Annotated[
        str, typer.Option("--workload", help="The workload whose primitives are timed.")
    ] = "cartpole-dqn",
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Items per gradient step.")] = 32,
    folder: Annotated[
        Path,
        typer.Option(
            "--bundles",
            help="Folder of bundles: those of other machines, and those of variants that are measured.",
        ),
    ] = Path("bundles"),
    seconds: Annotated[
        float, typer.Option("--seconds", min=1.0, help="For a variant's card, and again for its primitives.")
    ] = SECONDS,
    variants: Annotated[
        str, typer.Option("--variants", help="Variants of this machine, separated by commas, or `none`.")
    ] = joined(tuple(VARIANTS)),
) -> Bench[CardPrediction]:
    """Predict each machine's primitives from its card and the other machines, and compare with what was measured."""
    asked = chosen("--variants", variants, tuple(VARIANTS))

    def measure(report: Report) -> Sequence[CardPrediction]:
        machines = {}
        for number, variant in enumerate(asked):
            report(number, len(asked), variant)
            machines[variant] = bundle_of(variant, workload, batch_size, seconds, folder)
        own = {f"{workload}-{batch_size}-{name.replace(' ', '-')}" for name in VARIANTS}
        others = {
            path.stem: Bundle.read(path) for path in sorted(folder.glob(f"*{SUFFIX}")) if path.stem not in own
        }
        return predictions(machines | others)

    return Bench(
        SUITE,
        CardPrediction,
        [cell(f"{SUITE}/{workload}/{batch_size}", measure)],
        table,
        selecting=("workload", "batch_size"),
    )
