"""Summarises studies in a few lines: the best choices, the errors of predictions, and the regrets of strategies.

A choice is a way to run a training, a strategy a performance model that chooses, and regret the share of throughput
that its choice loses (`harness.validate.study`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import log2
from statistics import median
from typing import Any

from placerl.harness.validate.study import OURS, StudyResult

GOAL_MEDIAN, GOAL_WITHIN, GOAL_SHARE, GOAL_WORST = 0.02, 0.05, 0.90, 0.15
"""Errors of predictions that are aimed at: the median, this share within that, none above that."""
GOAL_REGRET, GOAL_CELLS = 0.02, 0.95
"""Regret of this project's choice that is aimed at, and the share of cells."""
PARTS = ("learner", "replay", "storage", "loop", "ahead", "threads", "actors", "processes")

CellKey = tuple[str, int, int]


@dataclass(frozen=True)
class CellResult:
    """The rows of a study about one workload, batch size and number of cores, as far as a summary reads them.

    Attributes:
        workload, batch_size, cores: what was studied.
        best: the row of the choice (way to run the training) that regrets refer to; without any, that with the highest
            rate in the final.
        finalists: the rows of the choices of the final.
        predictions: rows of predictions with an error from the final's rounds.
        regrets: rows of regret by name of the strategy (performance model).
        failed: number of choices that failed.
        not_run: number of choices that were predicted too slow to be run.
    """

    workload: str
    batch_size: int
    cores: int
    best: StudyResult
    finalists: tuple[StudyResult, ...]
    predictions: tuple[StudyResult, ...]
    regrets: dict[str, StudyResult]
    failed: int
    not_run: int

    def __str__(self) -> str:
        return f"{self.workload} B = {self.batch_size}, {self.cores} core{'s' if self.cores > 1 else ''}"


def results(rows: Iterable[StudyResult]) -> list[CellResult]:
    """Return the results of every study that has a final, in the order of the rows.

    Args:
        rows: stored measurements of studies; those of one workload, batch size and number of cores are one result.
    """
    cells: dict[CellKey, list[StudyResult]] = {}
    for row in rows:
        cells.setdefault((row.workload, row.batch_size or 0, row.cores), []).append(row)
    results_of_cells = []
    for key, some in cells.items():
        ran = [row for row in some if row.quantity == "gradient_steps_per_s"]
        final = [row for row in ran if row.stage == "final"]
        if not final:
            continue
        # What was left out ran in other rounds than the rest, and may be faster only because the machine was.
        judged = {row.best for row in some if row.quantity == "regret"}
        results_of_cells.append(
            CellResult(
                *key,
                best=max(final, key=lambda row: (row.choice in judged, row.value or 0.0)),
                finalists=tuple(final),
                predictions=tuple(row for row in some if row.error is not None),
                regrets={row.strategy: row for row in some if row.quantity == "regret"},
                failed=sum(row.status == "failed" for row in ran),
                not_run=sum(row.status == "not_run" for row in ran),
            )
        )
    return results_of_cells


def entropy(values: Sequence[Any]) -> float:
    """Return the entropy of the frequencies of the values, bits; 0 if all values are equal or there are none."""
    shares = [count / len(values) for count in Counter(values).values()]
    return sum(-share * log2(share) for share in shares)


def choice_part(row: StudyResult, name: str) -> str:
    """Return one part of the choice (way to run the training) that a row is about, as text.

    Args:
        name: the part: "learner", "replay", "storage", "loop", "ahead", "threads", "actors" or "processes".
    """
    mapping = dict(zip(PARTS[:3], row.mapping.split("-"), strict=True))
    return mapping.get(name) or str(getattr(row, name))


def summary(cells: Sequence[CellResult]) -> list[str]:
    """Return the text of a summary as at most 40 lines: entropy of the best choices, errors and regrets.

    Errors and regrets stand next to their goals.
    """
    if not cells:
        return ["No cell has a final."]
    best = [cell.best.choice for cell in cells]
    parts = ((name, entropy([choice_part(cell.best, name) for cell in cells])) for name in PARTS)
    (commonest, times), *_ = Counter(best).most_common(1)
    tried = sum(len(cell.finalists) for cell in cells)
    return [
        f"{len(cells)} cells; {tried} finalists; {sum(cell.failed for cell in cells)} choices failed, "
        f"{sum(cell.not_run for cell in cells)} were predicted too slow to be run.",
        f"Best choices: {len(set(best))} different, entropy {entropy(best):.2f} bits of at most "
        f"{log2(len(cells)):.2f}; commonest ({times} of {len(cells)}): {commonest}.",
        "Entropy by part, bits: " + ", ".join(f"{name} {bits:.2f}" for name, bits in parts) + ".",
        "",
        *_errors(cells),
        "",
        *_regrets(cells),
    ]


def _verdict(met: bool, goal: str) -> str:
    return f"goal {goal}: {'met' if met else 'missed'}"


def _errors(cells: Sequence[CellResult]) -> list[str]:
    finalists = [(abs(row.error or 0.0), row, cell) for cell in cells for row in cell.predictions]
    if not finalists:
        return ["No finalist was predicted."]
    errors = [error for error, _, _ in finalists]
    middle, within = median(errors), _within(errors)
    worst, row, cell = max(finalists, key=lambda one: one[0])
    before = median(abs(row.error_before or 0.0) for _, row, _ in finalists)
    return [
        f"Errors of {len(errors)} predictions of finalists, from pieces of the same rounds:",
        f"- median {middle:.1%} ({_verdict(middle <= GOAL_MEDIAN, f'{GOAL_MEDIAN:.0%}')}); {before:.1%} from the "
        "pieces timed before",
        f"- {within:.0%} within {GOAL_WITHIN:.0%} ({_verdict(within >= GOAL_SHARE, f'{GOAL_SHARE:.0%}')})",
        f"- worst {row.error:+.1%} ({_verdict(worst <= GOAL_WORST, f'none above {GOAL_WORST:.0%}')}): "
        f"{cell}: {row.choice}",
        *_errors_by(lambda row, cell: f"{cell.cores} core{'s' if cell.cores > 1 else ''}", finalists),
        *_errors_by(lambda row, cell: row.loop or "", finalists),
    ]


def _within(errors: Sequence[float]) -> float:
    return sum(error <= GOAL_WITHIN for error in errors) / len(errors)


def _errors_by(
    name: Callable[[StudyResult, CellResult], str], finalists: Iterable[tuple[float, StudyResult, CellResult]]
) -> list[str]:
    """Return one line with the errors of each group of predictions; none if there is one group."""
    groups: dict[str, list[float]] = {}
    for error, row, cell in finalists:
        groups.setdefault(name(row, cell), []).append(error)
    texts = [
        f"{group} {median(errors):.1%}, {_within(errors):.0%} ({len(errors)})"
        for group, errors in sorted(groups.items())
    ]
    return [f"- median and share within {GOAL_WITHIN:.0%}: " + "; ".join(texts)] if len(texts) > 1 else []


def _regrets(cells: Sequence[CellResult]) -> list[str]:
    names = sorted({name for cell in cells for name in cell.regrets}, key=lambda name: (name != OURS, name))
    lines = ["Regret against the best choice that was found:"]
    for name in names:
        rows = [(cell.regrets[name], cell) for cell in cells if name in cell.regrets]
        ran = [(row.value, row, cell) for row, cell in rows if row.value is not None]
        if not ran:
            lines.append(f"- {name}: not run in {len(rows)} cells: {rows[0][0].reason}")
            continue
        values = [value for value, _, _ in ran]
        small = sum(value <= GOAL_REGRET for value in values) / len(values)
        unsure = [value > GOAL_REGRET for value, row, _ in ran if row.verdict == "no verdict"]
        worst, row, cell = max(ran, key=lambda one: one[0])
        text = f"- {name}: median {median(values):.1%}, worst {worst:.1%}; at most {GOAL_REGRET:.0%} in {small:.0%} of "
        text += f"{len(ran)} cells"
        if name == OURS:
            text += f" ({_verdict(small >= GOAL_CELLS, f'{GOAL_CELLS:.0%}')})"
        if unsure:
            text += f"; without a verdict: {unsure.count(False)} of these, {unsure.count(True)} of the others"
        if len(ran) < len(rows):
            missing = next(row.reason for row, _ in rows if row.value is None)
            text += f"; not run in {len(rows) - len(ran)}: {missing}"
        lines.append(text)
        if worst > 0:
            lines.append(f"  loses most in {cell}: {row.choice}; best {row.best}")
    return lines


def cell_lines(cells: Sequence[CellResult]) -> list[list[str]]:
    """Return the rows of a table with one line per studied workload, batch size and number of cores.

    Returns:
        Per line six texts: what was studied, the best choice, its gradient steps per second, this project's choice,
        its regret with a verdict, and the largest error of a prediction.
    """
    lines = []
    for cell in cells:
        ours = cell.regrets.get(OURS)
        value = "" if ours is None or ours.value is None else f"{ours.value:.1%} ({ours.verdict})"
        errors = [row.error or 0.0 for row in cell.predictions]
        chosen = (ours.choice if ours else "") or ""
        rate = f"{cell.best.value:,.4g}"
        if cell.best.low is not None and cell.best.high is not None:
            rate += f" [{cell.best.low:,.4g}, {cell.best.high:,.4g}]"
        worst = f"{max(errors, key=abs):+.1%}" if errors else ""
        lines.append([str(cell), str(cell.best.choice), rate, chosen, value, worst])
    return lines
