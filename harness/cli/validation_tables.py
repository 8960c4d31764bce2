"""Prints the results of `placerl validate`: errors of predictions, and regret of choices."""

from collections.abc import Sequence
from statistics import median

from rich.table import Table

from placerl.harness.cli.common import out
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.mapping import PAPERS, VALIDATED, Loop
from placerl.harness.mapping.strategies.composed_loop import NAMES
from placerl.harness.measure.statistics import FEWEST_SAMPLES
from placerl.harness.papers.map.predictions import why_not_judged
from placerl.harness.store.rows import AchievedRate, Overhead, Portability, PredictedRate, Regret
from placerl.harness.validate.rows import HERE, WITH_SIMULATED

WITHIN = 0.05
"""Largest error of a prediction that meets the target, as a fraction of the achieved throughput."""
DESCRIBED = {loop: [name for name, one in VALIDATED.items() if one.loop is loop] for loop in NAMES}
"""The mapping strategies that predict the throughput of each training loop."""


def show_cell(rows: Sequence[Row]) -> None:
    """Print the results of one workload at one batch size: for each training loop a table with a line per mapping.

    A mapping assigns the parts of a training to devices. Its line has the throughput that it achieved, the error of
    each strategy that predicts the loop, and the errors of the prediction's terms.
    """
    achieved = [row for row in rows if isinstance(row, AchievedRate)]
    if not achieved:
        for row in rows:
            out.print(f"{row.workload}: {row.status}: {row.reason}", markup=False)
        return
    predicted = {
        (row.mapping, row.loop, row.strategy): row
        for row in rows
        if isinstance(row, PredictedRate) and row.value is not None
    }
    for loop, described in DESCRIBED.items():
        table = Table(title=f"{achieved[0].workload}, batch size {achieved[0].batch_size}, {loop} loop")
        for column in ("mapping", "achieved GPS", *described, f"terms of {NAMES[loop]}"):
            table.add_column(column)
        mine = [row for row in achieved if row.loop == loop]
        if not mine:
            continue
        for row in sorted(mine, key=lambda row: -(row.value or 0)):
            by_strategy = {name: predicted.get((row.mapping, loop, name)) for name in described}
            errors = [_error(one) for one in by_strategy.values()]
            table.add_row(row.mapping, _reached(row), *errors, _terms(by_strategy[NAMES[loop]]))
        out.print(table)
    for row in rows:
        _show_line(row)


def _show_line(row: Row) -> None:
    match row:
        case Portability():
            said = row.reason if row.value is None else f"{row.value:,.1f} experiences/s"
            state = "not run: " if row.status == "not_run" else ""
            what = f"portability over {len(row.choices or ())} device assignments"
            out.print(f"{what}, {row.devices}, {row.system}: {state}{said}", markup=False)
        case Overhead():
            out.print(
                f"overhead over the slowest unit ({row.slowest}), {row.mapping}, "
                f"actors in parallel with the rest: {_percent(row.value)}{_interval(row.low, row.high)}{_noise(row)}",
                markup=False,
            )
        case Regret() if row.value is None:
            out.print(f"regret of {row.strategy}: not run: {row.reason}", markup=False)
        case PredictedRate() if row.value is None:
            out.print(f"{row.strategy}: not run: {row.reason}", markup=False)


def show_answer(rows: Sequence[Row]) -> None:
    """Print in a few lines how well each mapping strategy predicts and chooses, over all workloads and batch sizes.

    A strategy predicts the throughput of mappings, which assign the parts of a training to devices, and chooses the
    best. Its line has the errors of its predictions, and the regret of its choices: the fraction of the best mapping's
    throughput that is lost by the chosen one.
    """
    rated = [row for row in rows if isinstance(row, PredictedRate)]
    lost = [row for row in rows if isinstance(row, Regret)]
    for provenance, devices in (("measured", HERE), ("simulated", WITH_SIMULATED)):
        predicted = [row for row in rated if row.achieved_provenance == provenance]
        regrets = [row for row in lost if row.devices == devices]
        if predicted:
            _say_finding(predicted, provenance)
        if predicted or regrets:
            _show_strategies(predicted, regrets, devices)
    _say_what_map_leaves_open(rows)


def _say_what_map_leaves_open(rows: Sequence[Row]) -> None:
    """Print on how many of its loop's rates MAP's formula says nothing, and why; nothing if it covers all."""
    relaxed = [
        row for row in rows if isinstance(row, AchievedRate) and row.loop == Loop.RELAXED and row.value
    ]
    whys = [why for row in relaxed if (why := why_not_judged(row))]
    if whys:
        said = "; ".join(sorted(set(whys)))
        out.print(f"MAP's formula does not cover {len(whys)} of {len(relaxed)} rates of its loop: {said}.")


def _judged(rows: Sequence[PredictedRate], name: str) -> list[float]:
    """Return the sizes of the errors of a strategy's predictions that had rounds enough to be judged."""
    return [abs(row.error or 0.0) for row in rows if row.strategy == name and row.error_low is not None]


def _say_finding(rows: Sequence[PredictedRate], provenance: str) -> None:
    """Print the median errors of this project's models and of the papers' formulas, in a sentence."""
    medians = {name: median(errors) for name in VALIDATED if (errors := _judged(rows, name))}
    said = []
    if own := sorted(medians[name] for name in NAMES.values() if name in medians):
        span = f"{own[0]:.1%}" if len(own) == 1 else f"{own[0]:.1%} to {own[-1]:.1%}"
        said.append(f"this project's models are {span} off in the median")
    if off := [f"{medians[name]:.0%} ({key})" for name, key in PAPERS.items() if name in medians]:
        said.append(f"the papers' formulas {', '.join(off)}")
    if said:
        which = f"Of {provenance} rates of at least {FEWEST_SAMPLES} rounds, each in its own loop"
        out.print(f"{which}, {'; '.join(said)}.", markup=False)


def _show_strategies(predicted: Sequence[PredictedRate], regrets: Sequence[Regret], devices: str) -> None:
    """Print a line a strategy: the errors of its predictions, and the regret of its choices among the devices."""
    table = Table(box=None, padding=(0, 1, 0, 0), title=f"Errors and regrets, {devices}")
    table.add_column("strategy", no_wrap=True)
    for column in ("error", f"within {WITHIN:.0%}", "worst", "regret", "worst"):
        table.add_column(column, justify="right")
    for name in VALIDATED:
        errors = _judged(predicted, name)
        lost = [row.value for row in regrets if row.strategy == name and row.value is not None]
        if errors:
            within = f"{sum(error <= WITHIN for error in errors)} of {len(errors)}"
            shown = [f"{median(errors):.1%}", within, f"{max(errors):.1%}"]
        elif any(row.strategy == name for row in predicted):
            shown = ["", "no verdict", ""]
        else:
            shown = ["", "", ""]
        if any(shown) or lost:
            table.add_row(name, *shown, *((f"{median(lost):.1%}", f"{max(lost):.1%}") if lost else ("", "")))
    out.print(table)


def show_strategies(rows: Sequence[Row]) -> None:
    """Print every number by which a strategy's predictions and choices are judged, and the reasons for errors."""
    for provenance in ("measured", "simulated"):
        predicted = (row for row in rows if isinstance(row, PredictedRate))
        beside = [row for row in predicted if row.achieved_provenance == provenance]
        if beside:
            _show_errors(beside, provenance)
    for devices in (HERE, WITH_SIMULATED):
        lost = [row for row in rows if isinstance(row, Regret) and row.devices == devices]
        if lost:
            _show_regrets(lost, devices)
    _show_reasons(rows)


def _show_reasons(rows: Sequence[Row]) -> None:
    """Print why the runtime's own models missed the target; if noise explains both, only that."""
    own = [
        row
        for row in rows
        if isinstance(row, PredictedRate)
        and row.strategy in NAMES.values()
        and row.error is not None
        and row.ran == row.loop
    ]
    unsure = []
    for row in own:
        error, low, high = row.error or 0.0, row.error_low, row.error_high
        if abs(error) <= WITHIN:
            continue
        where = (
            f"{row.workload}, batch size {row.batch_size}, {row.mapping}, {row.loop} loop "
            f"({row.achieved_provenance}): {error:+.1%}{_interval(low, high)}"
        )
        if low is None or high is None or (low <= WITHIN and high >= -WITHIN):
            unsure.append(where)
            continue
        said = f"over {WITHIN:.0%}: {where}, most of it from {_reason(row)}"
        out.print(said, markup=False, soft_wrap=True)
    if unsure:
        out.print(f"{len(unsure)} more may be over {WITHIN:.0%} or not, by their noise:", markup=False)
        for where in unsure:
            out.print(f"  {where}", markup=False, soft_wrap=True)


def _show_errors(rows: list[PredictedRate], provenance: str) -> None:
    table = Table(title=f"Errors of the predictions compared with achieved rates, {provenance}")
    columns = ("loop", "predictions judged", "median |error|", f"within {WITHIN:.0%}", "worst |error|")
    for column in ("strategy", *columns, "chosen: median |error|", "chosen: worst |error|"):
        table.add_column(column)
    for name in VALIDATED:
        known = [row for row in rows if row.strategy == name]
        mine = [row for row in known if row.error_low is not None]
        if not known:
            continue
        if not mine:
            said = f"no verdict: fewer than {FEWEST_SAMPLES} rounds each"
            table.add_row(name, known[0].loop, f"0 of {len(known)}", said, "", "", "", "")
            continue
        errors = [abs(row.error or 0.0) for row in mine]
        chosen = [abs(row.error or 0.0) for row in mine if row.chosen_among]
        table.add_row(
            name,
            mine[0].loop,
            f"{len(mine)} of {len(known)}",
            f"{median(errors):.1%}",
            f"{sum(error <= WITHIN for error in errors)} of {len(mine)}",
            f"{max(errors):.1%}",
            f"{median(chosen):.1%}" if chosen else "",
            f"{max(chosen):.1%}" if chosen else "",
        )
    out.print(table)


def _show_regrets(rows: list[Regret], devices: str) -> None:
    table = Table(title=f"Regret of the choices among the mappings {devices}")
    words = ("best", "no verdict", "lost")
    for column in ("strategy", "cells", "not run", *words, "median regret", "worst regret"):
        table.add_column(column)
    for name in VALIDATED:
        mine = [row for row in rows if row.strategy == name]
        judged = [row for row in mine if row.value is not None]
        verdicts = [row.verdict for row in judged]
        counts = [len(mine), len(mine) - len(judged), *(verdicts.count(word) for word in words)]
        middle = f"{median(row.value or 0.0 for row in judged):.1%}" if judged else ""
        table.add_row(name, *map(str, counts), middle, _worst(judged))
    out.print(table)
    banded = [row for row in rows if row.slow_link_us is not None]
    if banded:
        unchanged = sum(bool(row.slow_chosen) for row in banded)
        latency_us = max(row.slow_link_us or 0.0 for row in banded)
        out.print(
            f"MAP states no latency for its link; with {latency_us:,g} us a transfer, which PRL's authors list for "
            f"another board, {unchanged} of {len(banded)} choices would be the same",
            markup=False,
        )


def _worst(judged: list[Regret]) -> str:
    if not judged:
        return ""
    worst = max(judged, key=lambda row: row.value or 0.0)
    unsure = " no verdict" if worst.verdict == "no verdict" else ""
    return f"{worst.value:.1%}{_interval(worst.low, worst.high)}{unsure}"


def _reason(row: PredictedRate) -> str:
    """Return the term of a prediction with the largest error, in seconds per gradient step."""
    predicted_s, errors = row.terms_s or {}, row.term_errors
    if not errors:
        return "terms that were not counted"
    achieved_s = {term: predicted_s[term] / (1 + error) for term, error in errors.items()}
    term = max(errors, key=lambda name: abs(predicted_s[name] - achieved_s[name]))
    noise = "; a time was too noisy" if row.status == "too_noisy" else ""
    return (
        f"{term}: {predicted_s[term] * 1e6:,.2f} us predicted, {achieved_s[term] * 1e6:,.2f} us taken{noise}"
    )


def _reached(row: AchievedRate) -> str:
    if row.value is None:
        return row.reason
    marks = [] if row.provenance is Provenance.MEASURED else [str(row.provenance)]
    marks += ["too noisy"] if row.status == "too_noisy" else []
    return f"{row.value:,.1f}" + (f" ({', '.join(marks)})" if marks else "")


def _error(row: PredictedRate | None) -> str:
    if row is None or row.error is None:
        return ""
    chosen = row.chosen_among or ()
    mark = " *" if HERE in chosen else " +" if chosen else ""
    noise = "~" if row.status == "too_noisy" else ""
    return f"{noise}{row.error:+.1%}{mark}"


def _terms(row: PredictedRate | None) -> str:
    errors = (row.term_errors if row else None) or {}
    return ", ".join(f"{term} {error:+.0%}" for term, error in errors.items())


def _noise(row: Row) -> str:
    return " (too noisy)" if row.status == "too_noisy" else ""


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" [{low:.1%}, {high:.1%}]"
