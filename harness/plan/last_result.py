"""Says in one line what a cell of the main job found, for the progress display."""

from collections.abc import Sequence

from placerl.harness.core.row import Measurement
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import DEFAULT_STRATEGY
from placerl.harness.mapping.choices import HERE


def in_words(rows: Sequence[Measurement]) -> str:
    """Return what the rows of a cell (a unit of work of a run) say, such as "hopper-ddpg B=256: 338 gradient steps/s".

    Args:
        rows: the rows of one cell.

    Returns:
        A line; empty if the rows are no answer by themselves, such as the times of single calls.
    """
    failed = next((row for row in rows if row.status == "failed"), None)
    if failed is not None:
        first, *_ = failed.reason.splitlines() or [""]
        return f"{_where(failed)} failed: {first}"
    return next(filter(None, map(_said, rows)), "")


def _said(row: Measurement) -> str:
    if row.value is None:
        return ""
    if row.suite in (Suite.VALIDATION, Suite.PREDICTION):
        return _predicted(row)
    if row.suite == Suite.RUN and row.quantity == "gradient_steps_per_s":
        return f"{_where(row)}: {row.device} trained at {row.value:.4g} gradient steps/s"
    if row.suite == Suite.COMPARE and row.quantity == "throughput_ratio":
        baseline, verdict = row.details["baseline"], row.details["verdict"]
        return f"{_where(row)}: {row.value:.3g} times as fast as {baseline}, {verdict}"
    return ""


def _predicted(row: Measurement) -> str:
    """Return what is said of the mapping that the default strategy chose; empty for every other row."""
    chosen = HERE in row.details.get("chosen_among", []) or row.details.get("chosen")
    if row.backend != DEFAULT_STRATEGY or not chosen or not row.quantity.endswith("gradient_steps_per_s"):
        return ""
    said = f"{_where(row)}: {row.device}, {row.value:.4g} gradient steps/s predicted"
    achieved = row.details.get("achieved")
    return said if achieved is None else f"{said}, {achieved:.4g} achieved"


def _where(row: Measurement) -> str:
    return f"{row.workload} B={row.batch_size}" if row.batch_size else row.workload or row.primitive
