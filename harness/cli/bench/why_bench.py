"""Asks `placerl why` about scripts into which a cause of slowness was planted, and repairs them.

    placerl bench why [--seconds 20] [--rounds 3] [--only slow]

Of each script, the cause that is named first is compared with the planted one, and its predicted gain with how much
faster the repaired script is. The planted and the repaired script run in turns, without being sampled.
"""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from placerl.harness.cli.bench.command import Bench, cell, section
from placerl.harness.compare import registry
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import HowTimed
from placerl.harness.core.suites import Suite
from placerl.harness.measure.conditions import conditions
from placerl.harness.store.rows import BenchResult
from placerl.harness.why.causes.base import Evidence
from placerl.harness.why.diagnosis import findings
from placerl.harness.why.planted import Case, cases, steps_per_s
from placerl.harness.why.profile import profile
from placerl.harness.why.recording import record

SUITE = Suite.BENCH_WHY
NAMED_GOAL, GAIN_GOAL = (22, 24), 0.15
"""Scripts whose cause is to be named first, of how many; and the error of a predicted gain up to which it is near."""


@dataclass(frozen=True, kw_only=True)
class WhyResult(BenchResult, table="why_result"):
    """What was found of a script; its value is how many times as fast the repaired script was.

    Attributes:
        script: the script's name.
        planted: the planted cause.
        named: the causes that were named, the first first.
        predicted: the predicted gain of the planted cause; None if it was not named.
    """

    script: str = ""
    planted: str = ""
    named: Sequence[str] = ()
    predicted: float | None = None


def diagnosed(case: Case, seconds: float, rounds: int, report: Report) -> Sequence[WhyResult]:
    """Ask about a case's planted script, run both in turns, and return the row."""
    python = str(registry.baseline_python("sb3") if case.script == "sb3" else Path(sys.executable))
    with tempfile.TemporaryDirectory(prefix="placerl-why-") as folder:
        planted, repaired = ([python, str(path)] for path in case.write(Path(folder)))
        report(0, rounds + 1, case.name)
        recording = record(planted, seconds, quiet=True)
        named = findings(Evidence(recording, profile(recording.stacks, recording.process)))
        gains = []
        for turn in range(rounds):
            report(turn + 1, rounds + 1, case.name)
            slow, fast = steps_per_s(planted, seconds), steps_per_s(repaired, seconds)
            gains.append(fast / slow)
    return [
        WhyResult(
            suite=SUITE,
            primitive=case.name,
            backend=case.script,
            device="cpu",
            quantity="gain",
            unit="ratio",
            provenance=Provenance.MEASURED,
            value=median(gains),
            samples=tuple(gains),
            timed=HowTimed(conditions=conditions()),
            script=case.script,
            planted=case.cause,
            named=[one.cause for one in named],
            predicted=next((one.gain for one in named if one.cause == case.cause), None),
        )
    ]


def table(rows: Sequence[WhyResult]) -> str:
    """Return the results as Markdown: a line for each script, then a summary, with the goal if all scripts were run."""
    lines, first, within = [], 0, 0
    for row in rows:
        error = None if row.predicted is None or row.value is None else row.predicted / row.value - 1
        first += tuple(row.named[:1]) == (row.planted,)
        within += error is not None and abs(error) <= GAIN_GOAL
        lines.append(
            [
                row.script,
                row.planted,
                ", ".join(row.named) or "none",
                "" if row.predicted is None else f"{row.predicted:.2f}x",
                "" if row.value is None else f"{row.value:.2f}x",
                "" if error is None else f"{error:+.0%}",
            ]
        )
    columns = ("script", "planted", "named, first first", "predicted gain", "achieved gain", "error")
    count, (least, every) = len(rows), NAMED_GOAL
    goal = f" (goal: {least} of {every})" if count == every else ""
    return "\n".join(
        [
            *section("Planted causes of slow training", columns, lines),
            f"Named first: {first} of {count}{goal}. Predicted within {GAIN_GOAL:.0%} of what the repair "
            f"brought: {within} of {count}.",
        ]
    )


def bench(
    seconds: Annotated[float, typer.Option("--seconds", min=2, help="Seconds of each run.")] = 20,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Runs of either script of a case.")] = 3,
    only: Annotated[str, typer.Option("--only", help="Text in the names of the cases to run.")] = "",
) -> Bench[WhyResult]:
    """Name causes of slowness planted into training scripts, and compare predicted with achieved gains.

    A third of the scripts need the environment of Stable-Baselines3 (`placerl baselines sb3`).
    """
    chosen = [one for one in cases() if only in one.name]
    if not chosen:
        causes = dict.fromkeys(one.cause for one in cases())
        allowed = "a part of a case's name, such as slow wrapper, dqn"
        raise UserError("command line", "--only", repr(only), allowed, names=causes)
    if any(one.script == "sb3" for one in chosen) and not registry.baseline_python("sb3").is_file():
        raise UserError(
            "this machine", "sb3", "nothing: its environment is not built", "placerl baselines sb3"
        )
    keys = [
        cell(f"{SUITE}/{one.name}", partial(diagnosed, one, seconds, rounds), seconds * (2 * rounds + 2))
        for one in chosen
    ]
    return Bench(SUITE, WhyResult, keys, table, selecting=("only",))
