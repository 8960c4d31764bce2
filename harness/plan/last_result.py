"""Says in one line what a cell of the main job found, for the progress display."""

from collections.abc import Sequence

from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import DEFAULT_STRATEGY
from placerl.harness.mapping.choices import HERE
from placerl.harness.store.rows import ComparisonResult, PredictedRate, TrainingResult


def in_words(rows: Sequence[Row]) -> str:
    """Return what the rows of a cell (a unit of work of a run) say, such as "hopper-ddpg B=256: 338 gradient steps/s".

    Returns:
        A line; empty if the rows are no answer by themselves, such as the times of single calls.
    """
    failed = next((row for row in rows if row.status == "failed"), None)
    if failed is not None:
        first, *_ = failed.reason.splitlines() or [""]
        return f"{_where(failed)} failed: {first}"
    return next(filter(None, map(_said, rows)), "")


def _said(row: Row) -> str:
    if row.value is None:
        return ""
    if isinstance(row, PredictedRate) and row.suite in (Suite.VALIDATION, Suite.PREDICTION):
        return _predicted(row)
    if isinstance(row, TrainingResult) and row.quantity == "gradient_steps_per_s":
        return f"{_where(row)}: {row.mapping} trained at {row.value:.4g} gradient steps/s"
    if isinstance(row, ComparisonResult) and row.quantity == "throughput_ratio":
        return f"{_where(row)}: {row.value:.3g} times as fast as {row.baseline}, {row.verdict}"
    return ""


def _predicted(row: PredictedRate) -> str:
    """Return what is said of the mapping that the default strategy chose; empty for every other row."""
    chosen = HERE in (row.chosen_among or ()) or row.chosen
    if row.strategy != DEFAULT_STRATEGY or not chosen:
        return ""
    said = f"{_where(row)}: {row.mapping}, {row.value:.4g} gradient steps/s predicted"
    return said if row.achieved is None else f"{said}, {row.achieved:.4g} achieved"


def _where(row: Row) -> str:
    return f"{row.workload} B={row.batch_size}" if row.batch_size else row.workload or row.primitive
