"""Prints what a report says in at most 40 lines: the answers first, then the verdicts by paper, then where more is."""

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from placerl.harness import papers
from placerl.harness.cli.common import in_short, out, print_json, say
from placerl.harness.core.revision import RESULTS, store_path
from placerl.harness.mapping import DEFAULT_STRATEGY
from placerl.harness.papers import Outcome
from placerl.harness.papers.number import Number
from placerl.harness.report import answers, site
from placerl.harness.report.content import Content
from placerl.harness.report.rows.libraries import BaselineComparison

MOST_MAPPINGS, MOST_COMPARISONS = 12, 6
"""Most lines of a table with a line for each workload and batch size; the report has them all."""


def write_report(results: Path, as_json: bool, references: Path | None = None, only: str = "") -> None:
    """Write the report of a folder of results to its subfolder `report`, and print a summary.

    The summary has the fastest mappings, the comparisons with other libraries, the errors of predictions, the numbers
    of verdicts by paper, the number of timed rows that are too noisy, and the report's path.

    Args:
        as_json: whether to print JSON instead: the report's path, all verdicts, and the numbers of rows.
        references: folder of reference runs, if the report is to show what changed since one of them.
        only: a paper's or a claim's key, if nothing but the verdicts on its claims is to be printed.
    """
    keys = {claim.key for claim in papers.claims(only)}
    page, content = site.write(store_path(results), results / "report", references)
    verdicts = [verdict for verdict in content.verdicts if verdict.key in keys]
    timed, noisy = _noise(content)
    if as_json:
        print_json(
            {
                "report": str(page.resolve()),
                "timed_rows": timed,
                "too_noisy_rows": noisy,
                "verdicts": [verdict.to_json() for verdict in verdicts],
            }
        )
        return
    if only:
        for verdict in verdicts:
            say("\n".join(_said(verdict)))
        say(f"Report: {page.resolve()}")
        return
    _print_answers(content)
    out.print(_verdicts(content))
    waiting = sum(bool(verdict.needs) for verdict in content.verdicts)
    where = "" if results == RESULTS else f" --results {shlex.quote(str(results))}"
    missing = (
        f"; {waiting} not run: `placerl claims --verdict 'not run'{where}` says what each needs"
        if waiting
        else ""
    )
    say(f"All claims with their numbers: `placerl claims{where}`{missing}.")
    if timed:
        say(f"{noisy:,} of {timed:,} timed rows too noisy ({noisy / timed:.1%})")
    say(f"Report: {page.resolve()}")


def _said(verdict: papers.Verdict) -> list[str]:
    """Return a verdict as lines: what was stated and shown, why, and what it needs if it was not run."""
    lines = {
        "": verdict.statement,
        "published: ": in_short(verdict.published),
        "here: ": in_short(verdict.ours),
        "why: ": verdict.finding.explanation,
        "needs: ": verdict.needs,
    }
    return [
        f"{verdict.key}: {verdict.finding.outcome}",
        *(f"  {what}{text}" for what, text in lines.items() if text),
    ]


def _noise(content: Content) -> tuple[int, int]:
    """Return the numbers of timed rows, and of those that are too noisy."""
    if not content.noisy_rows:
        return 0, 0
    *_, every = content.noisy_rows
    return round(every.timed.value), round(every.noisy.value)


def _print_answers(content: Content) -> None:
    _print_table(
        "Fastest mapping of those that were run (learner-replay-storage), gradient steps/s",
        ("workload", "batch size", "mapping", "rate", "next", "verdict"),
        [
            (f.workload, str(f.batch_size), f.mapping, _shown(f.rate), _next(f), f.sure)
            for f in answers.fastest_mappings(content)
        ],
        MOST_MAPPINGS,
    )
    _print_table(
        "Training speed over that of other libraries",
        ("workload", "batch size", "over Stable-Baselines3", "over the fastest other"),
        [
            (a.workload, str(a.batch_size or ""), _ratio(a.sb3), _ratio(a.fastest, named=True))
            for a in answers.against_libraries(content)
        ],
        MOST_COMPARISONS,
    )
    for simulated, where in ((False, "on measured devices"), (True, "with a simulated FPGA")):
        if errors := answers.prediction_errors(content, simulated=simulated):
            say(
                f"Predictions of {DEFAULT_STRATEGY}: {errors.median_percent:.1f}% off in the median, {errors.within} "
                f"of {errors.trainings} within {answers.WITHIN_PERCENT:g}% ({errors.provenance})\n"
                f"  {where}; {errors.certainty}."
            )
    if said := answers.formula_errors(content):
        say(f"The papers' formulas: {said}.")


def _next(fastest: answers.FastestMapping) -> str:
    return f"{fastest.next_mapping} {fastest.next_rate.value:.4g}"


def _shown(number: Number) -> str:
    return f"{number} ({number.provenance})".replace(" 1/s", "")


def _ratio(comparison: BaselineComparison | None, *, named: bool = False) -> str:
    if comparison is None or comparison.ratio is None:
        return ""
    name = f"{comparison.baseline}: " if named else ""
    return f"{name}{comparison.ratio}, {comparison.verdict}"


def _print_table(title: str, columns: Sequence[str], lines: Sequence[Sequence[str]], most: int) -> None:
    """Print the first lines of a table, and how many there are more; nothing if there are none."""
    if not lines:
        return
    table = _table(title, columns)
    for line in lines[:most]:
        table.add_row(*line)
    out.print(table)
    if len(lines) > most:
        say(f"  and {len(lines) - most} more in the report")


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, overflow="ellipsis", no_wrap=True)
    return table


def _verdicts(content: Content) -> Table:
    """Return the number of verdicts of each kind, a line for each paper."""
    outcomes = [*Outcome]
    table = _table("Verdicts on the papers' statements", ("paper", *map(str, outcomes)))
    for key in papers.titles():
        counts: Counter[Any] = Counter(v.finding.outcome for v in content.verdicts if v.paper == key)
        table.add_row(key, *(str(counts[outcome] or "") for outcome in outcomes))
    return table
