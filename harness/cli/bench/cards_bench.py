"""Judges predictions from cards: leaves out each machine in turn, and predicts it from the others.

    placerl bench cards [--workload cartpole-dqn] [--batch-size 32] [--bundles FOLDER] [--seconds 45]

The machines are the bundles in a folder, and variants of this one, whose bundles are measured where the folder lacks
them: one core, narrower vectors, a quota, a neighbour (`harness.machines.variants`). Nothing else should run meanwhile.
A prediction is judged by its error and by whether its 95% interval holds the time that was measured. The rates of
mappings are composed of predicted times and of measured ones, and the choice by the former is judged by what it loses.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
import typer

from placerl.harness.cli.bench.command import Bench, cell, chosen, joined, section
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.machines import rates
from placerl.harness.machines.bundle import Bundle
from placerl.harness.machines.predicting import BOUNDS, leave_one_out
from placerl.harness.machines.renting import accepted
from placerl.harness.machines.sent_file import content_hash
from placerl.harness.machines.variants import VARIANTS, measured
from placerl.harness.store.rows import BenchResult

SUITE = Suite.BENCH_CARDS
SECONDS = 45.0
SUFFIX = ".json"
LEAST = 2
"""Machines of which each can be left out in turn."""


@dataclass(frozen=True, kw_only=True)
class CardPrediction(BenchResult, table="card_prediction"):
    """The predicted time of a piece on a machine that was left out, with the interval of the prediction.

    Attributes:
        machine: name of the machine's bundle, without its suffix.
        target: target of the piece.
        noise: noise score of its card, 1 on a quiet machine; None if it was not measured.
        measured_s: seconds of a call there, measured.
        bound_by: what the prediction holds to bound the piece most.
    """

    machine: str
    target: str
    noise: float | None = None
    measured_s: float
    bound_by: str


@dataclass(frozen=True, kw_only=True)
class CardRate(BenchResult, table="card_rate"):
    """The predicted rate of a mapping on a machine that was left out, with the interval of the prediction.

    Attributes:
        machine: name of the machine's bundle, without its suffix.
        mapping: the mapping.
        measured_gps: gradient steps per second, composed of the times that were measured there.
        chosen: whether the predictions choose the mapping.
    """

    machine: str
    mapping: str
    measured_gps: float
    chosen: bool


Judged = TypeVar("Judged", CardPrediction, CardRate)


def bundle_of(variant: str, workload: str, batch_size: int, seconds: float, folder: Path) -> Bundle:
    """Return the bundle of a variant of this machine, measured unless the folder holds it."""
    path = folder / f"{workload}-{batch_size}-{variant.replace(' ', '-')}{SUFFIX}"
    if path.exists():
        return Bundle.read(path)
    folder.mkdir(parents=True, exist_ok=True)
    return measured(VARIANTS[variant], workload, batch_size, seconds, path)


def predictions(machines: dict[str, Bundle]) -> list[BenchResult]:
    """Return what the other machines predict for each piece and each mapping of each machine."""
    names, known = list(machines), list(machines.values())
    left_out = leave_one_out(known)
    rows: list[BenchResult] = []
    for one in left_out:
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
                noise=known[one.machine].card.noise_score,
                measured_s=one.time_s,
                bound_by=max(BOUNDS, key=one.predicted.bounds.__getitem__),
            )
        )
    for rate in rates.leave_one_out(known, left_out):
        predicted = rate.predicted
        rows.append(
            CardRate(
                suite=SUITE,
                workload=predicted.workload,
                primitive="training",
                batch_size=predicted.batch_size,
                quantity="predicted_gradient_steps_per_s",
                provenance=Provenance.MODELLED,
                value=predicted.value,
                low=predicted.low,
                high=predicted.high,
                machine=names[rate.machine],
                mapping=predicted.mapping,
                measured_gps=rate.measured.value or 0.0,
                chosen=bool(predicted.chosen),
            )
        )
    return rows


def table(rows: Sequence[BenchResult]) -> str:
    """Return errors and coverage as Markdown: by machine and by kind of piece, and of the rates of mappings.

    Args:
        rows: what `predictions` returned.
    """
    pieces = [row for row in rows if isinstance(row, CardPrediction)]
    mapped = [row for row in rows if isinstance(row, CardRate)]
    judged = ("median error", "95% of errors within", "in interval")
    lines = ["# Predictions from cards, each machine left out in turn (modelled)", ""]
    by_machine = _grouped((row.machine, row) for row in pieces)
    cells = [[name, *_judged(group), _noise(group[0].noise)] for name, group in by_machine.items()]
    lines += section("By machine", ("of", "pieces", *judged, "noise score"), cells)
    by_kind = _grouped((f"{row.primitive.partition('.')[0]} on {row.backend}", row) for row in pieces)
    cells = [[name, *_judged(group)] for name, group in by_kind.items()]
    lines += section("By kind of piece", ("of", "pieces", *judged), cells)
    lines += section("All", ("pieces", *judged), [_judged(pieces)])
    if mapped:
        by_cell = _grouped((f"{row.machine}, {row.workload} {row.batch_size}", row) for row in mapped)
        cells = [[name, *_judged(group), _choice(group)] for name, group in by_cell.items()]
        title = "Rates of mappings, composed of predicted and of measured times, and what the choice loses"
        lines += section(
            title, ("of", "mappings", *judged, "chosen"), [*cells, ["all", *_judged(mapped), ""]]
        )
    return "\n".join(lines)


def _noise(score: float | None) -> str:
    return "unknown" if score is None else f"{score:.2f}"


def _grouped(named: Iterable[tuple[str, Judged]]) -> dict[str, list[Judged]]:
    groups: dict[str, list[Judged]] = {}
    for name, row in named:
        groups.setdefault(name, []).append(row)
    return groups


def _judged(rows: Sequence[CardPrediction] | Sequence[CardRate]) -> list[str]:
    measured = np.array(
        [row.measured_s if isinstance(row, CardPrediction) else row.measured_gps for row in rows]
    )
    low, value, high = np.array([(row.low, row.value, row.high) for row in rows], np.float64).T
    errors = np.abs(value / measured - 1)
    covered = np.mean((low <= measured) & (measured <= high))
    return [str(len(rows)), f"{np.median(errors):.1%}", f"{np.quantile(errors, 0.95):.1%}", f"{covered:.1%}"]


def _choice(rows: Sequence[CardRate]) -> str:
    """Return the chosen mapping, and the share of the best rate that it loses."""
    best = max(row.measured_gps for row in rows)
    for row in rows:
        if row.chosen:
            return f"{row.mapping}, loses {1 - row.measured_gps / best:.1%}"
    return "none that was measured"


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
) -> Bench[BenchResult]:
    """Predict each machine's primitives and mappings from its card and the other machines; compare with what it did."""
    asked = chosen("--variants", variants, tuple(VARIANTS))
    own = {f"{workload}-{batch_size}-{name.replace(' ', '-')}" for name in VARIANTS}
    others = [path for path in sorted(folder.glob(f"*{SUFFIX}")) if path.stem not in own]
    if len(asked) + len(others) < LEAST:
        found = f"{len(others)} bundles of other machines and {len(asked)} variants"
        raise UserError("command line", "--bundles", found, f"at least {LEAST} together", names=())
    sent = {path.stem: accepted(path) for path in others}
    # A folder with other bundles, or with other content of one, is another cell.
    of = f"/{content_hash({name: one.hash for name, one in sent.items()})[:12]}" if sent else ""

    def measure(report: Report) -> Sequence[BenchResult]:
        machines = {}
        for number, variant in enumerate(asked):
            report(number, len(asked), variant)
            machines[variant] = bundle_of(variant, workload, batch_size, seconds, folder)
        return predictions(machines | sent)

    return Bench(
        SUITE,
        BenchResult,
        [cell(f"{SUITE}/{workload}/{batch_size}{of}", measure)],
        table,
        selecting=("workload", "batch_size"),
    )
