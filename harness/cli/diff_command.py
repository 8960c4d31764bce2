"""The command `placerl diff`, which compares the stored measurements of two runs."""

from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from placerl.harness.cli.app import app
from placerl.harness.cli.common import JsonOption, out, print_json, say
from placerl.harness.core.errors import UserError
from placerl.harness.core.revision import store_path
from placerl.harness.core.row import Row
from placerl.harness.store.diff import Difference, diff
from placerl.harness.store.store import RunRecord, Store


class FailOn(StrEnum):
    """What makes the exit status 1."""

    WORSE = "worse"
    CHANGED = "changed"


@app.command(name="diff", epilog="Example: `placerl diff results-before results`, or `results#1 results#2`")
def diff_command(
    before: Annotated[
        str, typer.Argument(metavar="RUN_A", help="A results folder or a store; `#N` for its run N.")
    ],
    after: Annotated[str, typer.Argument(metavar="RUN_B", help="The newer one; the last run without `#N`.")],
    every: Annotated[
        bool, typer.Option("--all", help="Include what did not change or has no verdict.")
    ] = False,
    fail_on: Annotated[
        FailOn | None,
        typer.Option(
            "--fail-on",
            help="Status 1 if a quantity got worse, or `changed` at all, or is missing.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs, and print for each quantity whether it got better or worse, or that there is no verdict.

    With `--fail-on`, a quantity that the newer run lacks counts as worse. Runs that cannot be compared, because they
    are of two machines or have no quantity in common, are refused.
    """
    (old, old_rows), (new, new_rows) = _read(before), _read(after)
    elsewhere = "" if old.fingerprint == new.fingerprint else "the runs were made on different machines"
    differences = diff(old_rows, new_rows, incomparable=elsewhere)
    if fail_on and (elsewhere or all(d.before is None or d.after is None for d in differences)):
        found = elsewhere or "two runs that have no quantity in common"
        raise UserError("command line", "--fail-on", found, "two runs of one plan on one machine")
    counts = {word: sum(d.verdict == word for d in differences) for word in ("better", "worse", "no verdict")}
    chosen = [d for d in differences if every or d.verdict != "no verdict"]
    if as_json:
        print_json([asdict(d) | {"key": d.key._asdict(), "provenance": str(d.provenance)} for d in chosen])
    else:
        _show(chosen, f"{before} ({old.revision[:12]}) to {after} ({new.revision[:12]})")
        say(", ".join(f"{word}: {count}" for word, count in counts.items()))
        if elsewhere:
            say(f"No verdicts: {elsewhere}.")
    missing = sum(d.before is not None and d.after is None for d in differences)
    if fail_on and missing:
        typer.echo(f"Missing in {after}: {missing} quantities", err=True)
    if fail_on and (missing or counts["worse"] or (fail_on is FailOn.CHANGED and counts["better"])):
        raise typer.Exit(1)


def _read(text: str) -> tuple[RunRecord, Sequence[Row]]:
    """Return the run that the text names, with its measurements; for a cell measured again, only the last."""
    from placerl.harness.store.reference import last_attempts, runs_with_results

    name, mark, number = text.rpartition("#")
    path = Path(name if mark else text)
    with Store.open(store_path(path) if path.is_dir() else path, read_only=True) as store:
        runs = store.runs()
        wanted = number if mark else str(runs_with_results(store)[-1].id if runs else "")
        for run in runs:
            if str(run.id) == wanted:
                return run, [row for rows in last_attempts(store, run.id).values() for row in rows]
    allowed = ", ".join(str(run.id) for run in runs) or "none; the store has no run"
    raise UserError("command line", "RUN", text, f"run {allowed}")


def _show(differences: list[Difference], title: str) -> None:
    table = Table(title=title)
    for column in ("what", "before", "after", "unit", "ratio [95%]", "verdict", "provenance"):
        table.add_column(column)
    for d in differences:
        key = d.key
        size = "" if key.batch_size is None else f"B={key.batch_size}"
        what = (key.workload, key.primitive, key.who, key.where, key.quantity, size, key.parameters)
        before, after = ("" if v is None else f"{v:.4g}" for v in (d.before, d.after))
        ratio = "" if d.ratio is None else f"{d.ratio:.3f}"
        interval = "" if d.low is None or d.high is None else f" [{d.low:.3f}, {d.high:.3f}]"
        verdict = f"{d.verdict}: {d.reason}" if d.reason else d.verdict
        values = (before, after, key.unit, ratio + interval, verdict, str(d.provenance))
        table.add_row(" ".join(filter(None, what)), *values)
    out.print(table)
