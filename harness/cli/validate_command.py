"""`placerl validate`."""

from collections import defaultdict
from statistics import median
from typing import Annotated

import typer
from rich.table import Table

from harness import reproduce, tiers, validate
from harness.cli.app import app
from harness.cli.common import RESULTS, JsonOption, ResultsOption, TierOption, begin, out, print_json
from harness.errors import UserError
from harness.mapping import DEFAULT_STRATEGY, STRATEGIES
from harness.measurement import Measurement
from harness.progress import bar

WITHIN = 0.05
"""Errors up to this count as within the target."""


@app.command(name="validate", epilog="Example: `placerl validate --tier quick`")
def validate_command(
    tier_name: TierOption = "quick",
    only: Annotated[
        str, typer.Option("--only", help="Cells whose name contains this, such as `hopper-ddpg/256`.")
    ] = "",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure again what an earlier run finished.")
    ] = False,
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Run every mapping beside the pieces that predict it; print errors per mapping and term, and regret."""
    tier, cells = tiers.tier(tier_name), validate.cells(tier_name)
    chosen = [cell for cell in cells if only in cell.key]
    if not chosen:
        raise UserError("command line", "--only", only, ", ".join(cell.key for cell in cells))
    opened = begin(results, tier, fresh)
    with bar("validate") as report:
        reproduce.execute(opened, chosen, report)
    rows = [row for cell in chosen for row in reproduce.rows_of(opened, cell)]
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        for cell in chosen:
            show_cell(reproduce.rows_of(opened, cell))
        show_strategies(rows)
    if any(row.status == "failed" for row in rows):
        raise typer.Exit(1)


def show_cell(rows: list[Measurement]) -> None:
    """What each mapping achieved, every strategy's error there, and the default one's term by term."""
    achieved = [row for row in rows if row.quantity == "gradient_steps_per_s"]
    predicted = {(row.backend, row.device): row for row in rows if row.quantity.startswith("predicted_")}
    if not achieved:
        for row in rows:
            out.print(f"{row.workload}: {row.status}: {row.reason}", markup=False)
        return
    table = Table(title=f"{achieved[0].workload}, batch size {achieved[0].batch_size}")
    for column in ("mapping", "achieved GPS", *STRATEGIES, f"terms of {DEFAULT_STRATEGY}"):
        table.add_column(column)
    for row in sorted(achieved, key=lambda row: -(row.value or 0)):
        value = row.reason if row.value is None else f"{row.value:,.1f}"
        noisy = " (too noisy)" if row.status == "too_noisy" else ""
        errors = [_error(predicted.get((name, row.device))) for name in STRATEGIES]
        table.add_row(
            row.device, value + noisy, *errors, _terms(predicted.get((DEFAULT_STRATEGY, row.device)))
        )
    out.print(table)
    for row in rows:
        if row.quantity == "portability":
            out.print(f"portability over mappings, {row.backend}: {row.value:,.1f} experiences/s")
        elif row.quantity == "prediction":
            out.print(f"{row.backend}: not run: {row.reason}", markup=False)


def show_strategies(rows: list[Measurement]) -> None:
    """Over all cells: how far each strategy's predictions were off, and what its choices lost."""
    errors, chosen, regrets = defaultdict(list), defaultdict(list), defaultdict(list)
    for row in rows:
        if "error" in row.details:
            errors[row.backend].append(abs(row.details["error"]))
            if row.details["chosen"]:
                chosen[row.backend].append(row.details["error"])
        elif row.quantity == "regret" and row.value is not None:
            regrets[row.backend].append(row.value)
    table = Table(title="Strategies: error of the prediction, and regret of the choice")
    for column in (
        "strategy",
        "predictions",
        "median |error|",
        "within 5%",
        "worst |error|",
        "chosen: median |error|",
        "chosen: worst |error|",
        "median regret",
        "worst regret",
    ):
        table.add_column(column)
    for name, found in errors.items():
        own, lost = [abs(error) for error in chosen[name]], regrets[name]
        table.add_row(
            name,
            str(len(found)),
            f"{median(found):.1%}",
            f"{sum(error <= WITHIN for error in found)} of {len(found)}",
            f"{max(found):.1%}",
            f"{median(own):.1%}" if own else "",
            f"{max(own):.1%}" if own else "",
            f"{median(lost):.1%}" if lost else "",
            f"{max(lost):.1%}" if lost else "",
        )
    out.print(table)
    for row in rows:
        if row.backend == DEFAULT_STRATEGY and abs(row.details.get("error", 0)) > WITHIN:
            out.print(
                f"over {WITHIN:.0%}: {row.workload}, batch size {row.batch_size}, {row.device}: "
                f"{row.details['error']:+.1%}, most of it from {_reason(row)}",
                markup=False,
            )


def _reason(row: Measurement) -> str:
    """The term of a prediction that is the furthest off, in seconds a gradient step."""
    predicted_s, errors = row.details["terms_s"], row.details["term_errors"]
    if not errors:
        return "terms that were not counted"
    achieved_s = {term: predicted_s[term] / (1 + error) for term, error in errors.items()}
    term = max(errors, key=lambda name: abs(predicted_s[name] - achieved_s[name]))
    noise = "; a time was too noisy" if row.status == "too_noisy" else ""
    return (
        f"{term}: {predicted_s[term] * 1e6:,.2f} us predicted, {achieved_s[term] * 1e6:,.2f} us taken{noise}"
    )


def _error(row: Measurement | None) -> str:
    if row is None or "error" not in row.details:
        return ""
    return f"{row.details['error']:+.1%}{' *' if row.details['chosen'] else ''}"


def _terms(row: Measurement | None) -> str:
    errors = row.details.get("term_errors", {}) if row else {}
    return ", ".join(f"{term} {error:+.0%}" for term, error in errors.items())
