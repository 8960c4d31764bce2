"""Compares the speeds of other libraries with their own replay and with this project's replay (PAL VI-F, Fig. 11).

    placerl bench adapters [--only tianshou,sb3] [--budget-s 60]

It measures the gradient steps per second of whole trainings, with acting and the environment, of each library in its
own virtual environment. `harness/compare/adapters.py` describes how trainings with the two replays take turns.
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from placerl.harness.cli.bench.command import Bench, RoundsOption, cell, chosen, joined, section, shown
from placerl.harness.compare import adapters
from placerl.harness.compare.adapters import GAIN, NULL, PAIRS, SUITE, THROUGHPUT, AdapterResult, Pair
from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.measure import statistics

LIBRARIES = tuple(dict.fromkeys(pair.library for pair in PAIRS))


def table(rows: Sequence[AdapterResult]) -> str:
    """Return the results as Markdown: a table with a row per library and algorithm, and lists of what was measured."""
    lines = [
        "# Training with this project's replay in other libraries",
        "",
        "Gradient steps per second, median [95% interval]; the gain is a ratio of the faster halves' means, from "
        "pairs of the same interleaved rounds; ~: too noisy. Provenance: measured.",
        "",
    ]
    columns = (
        "library, algorithm",
        "own replay",
        "this project's",
        "gain",
        "ours over itself (A/A)",
        "verdict",
    )
    notes, cells = {}, []
    for name in dict.fromkeys(row.workload for row in rows):
        by_quantity = {(row.quantity, row.replay): row for row in rows if row.workload == name}
        gain = by_quantity[GAIN, None]
        if gain.value is None:
            cells.append([name, f"{gain.status.replace('_', ' ')}: {gain.reason}", "", "", "", ""])
            continue
        notes[gain.version] = gain.note
        texts = [
            *(shown(by_quantity[THROUGHPUT, replay], 1, ".1f") for replay in ("own", "ours")),
            shown(gain, 1, ".3f"),
            shown(by_quantity[NULL, None], 1, ".3f"),
            f"{gain.verdict}: {gain.why_no_verdict}" if gain.why_no_verdict else str(gain.verdict),
        ]
        cells.append([name, *texts])
    lines += section("Libraries", columns, cells)
    measured = {row.workload for row in rows if row.quantity == GAIN and row.value is not None}
    for what, among in (("Measured", True), ("Not measured", False)):
        names = [pair.name for pair in PAIRS if (pair.name in measured) is among]
        lines += [f"{what}: {', '.join(names) or 'none'}.", ""]
    lines += [
        *(f"- {version}: {note or 'both replays are prioritised'}." for version, note in notes.items()),
        "",
    ]
    return "\n".join(lines)


def bench(
    only: Annotated[str, typer.Option("--only", help="Libraries, separated by commas.")] = joined(LIBRARIES),
    rounds: RoundsOption = statistics.PAIRS,
    budget_s: Annotated[
        float, typer.Option("--budget-s", min=0, help="Seconds of one pair's rounds.")
    ] = 60.0,
) -> Bench[AdapterResult]:
    """Train in other libraries with their own replay and with this project's, and compare the speeds (PAL Fig. 11).

    Exit status 1 if a library failed.
    """
    libraries = chosen("--only", only, LIBRARIES)

    def measured(pair: Pair, report: Report) -> Sequence[Row]:
        with adapters.importable_primitives() as package:
            return adapters.measure(pair, rounds, budget_s, package, report)

    cells = [
        cell(f"{SUITE}/{pair.library}-{pair.algorithm}", partial(measured, pair), budget_s)
        for pair in PAIRS
        if pair.library in libraries
    ]
    return Bench(SUITE, AdapterResult, cells, table, selecting=("only",))
