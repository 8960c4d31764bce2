"""Says in lines what a training reached: its rates, and what was learnt. No line is cut on a narrow terminal."""

from collections.abc import Iterator, Sequence

import numpy as np

from placerl.harness.cli.common import value_text
from placerl.harness.core.row import Row
from placerl.harness.mapping.metrics import experiences_per_s
from placerl.harness.papers.number import format_value
from placerl.harness.store.rows import TrainingResult

STRETCHES = 10
"""Number of equal parts of a run whose rates are printed, since a rate may change as training goes on."""


def lines(rows: Sequence[Row], threshold: float | None) -> Iterator[str]:
    """Yield the lines about a training, the answer first.

    Args:
        threshold: the return at which its task counts as solved; None if it has none.
    """
    yield from _rates(rows)
    yield from _learnt(rows, threshold)
    for row in rows:
        if row.quantity == "failure":
            yield f"Failed: {row.reason}"


def _rates(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the rates, also as the papers count them: experiences (PRL), inferences (PPO, FIX), and GPS per watt (MAP);
    then the rate of each tenth of the run.
    """
    by_quantity = {row.quantity: row for row in rows}
    gps, steps = (by_quantity.get(f"{name}_steps_per_s") for name in ("gradient", "environment"))
    for row, counted in ((gps, "gradient steps"), (steps, "environment steps")):
        if row:
            yield _rate(row, f"{counted}/s")
    if gps and steps and gps.value and steps.value is not None and gps.batch_size:
        eps = experiences_per_s(gps.value, gps.batch_size)
        yield f"EPS {eps:,.0f} experiences/s, IPS {steps.value:,.0f} inferences/s ({gps.provenance})"
    if row := by_quantity.get("throughput_per_watt"):
        yield _rate(row, "gradient steps/s/W")
    if gps and len(gps.samples) >= STRETCHES:
        parts = np.array_split(np.array(gps.samples), STRETCHES)
        rates = " ".join(f"{np.median(part):,.0f}" for part in parts)
        yield f"GPS by tenth of the run: {rates} ({gps.provenance})"
    if isinstance(gps, TrainingResult) and gps.placement:
        from placerl.harness.loop.placement import Placement

        yield f"Bound to cores: {Placement(**gps.placement).text()}"
    if isinstance(gps, TrainingResult) and gps.narrowed is not None:
        delay = f"{gps.delay:,} gradient steps"
        narrowed = f"after {delay}" if gps.narrowed else f"never: the run ended within {delay}"
        yield f"Activations narrowed to 16 bits {narrowed}"


def _rate(row: Row, unit: str) -> str:
    if row.value is None:
        return f"{unit}: {value_text(row)}"
    bounds = () if row.low is None or row.high is None else (row.low, row.high)
    interval = f" [{', '.join(format_value(bound) for bound in bounds)}]" if bounds else ""
    noisy = "" if row.status == "ok" else f", {row.status.replace('_', ' ')}"
    return f"{format_value(row.value)} {unit}{interval} ({row.provenance}{noisy})"


def _learnt(rows: Sequence[Row], threshold: float | None) -> Iterator[str]:
    """Yield what the agent has learnt: the return at the end, the best, and when it reached the task's threshold."""
    from placerl.harness.measure.episodes import EPISODES

    by_quantity = {row.quantity: row for row in rows}
    if row := by_quantity.get("evaluation_return"):
        greedy = (
            f"{row.value:,.4g}, mean of {len(row.samples)} greedy episodes" if row.samples else row.reason
        )
        yield f"Return at the end: {greedy} ({row.provenance})"
    best = by_quantity.get("best_return")
    if best and best.value is not None:
        yield f"Best while training: {best.value:,.4g}, mean of {EPISODES} episodes in a row"
    steps, seconds = (by_quantity.get(f"{name}_to_threshold") for name in ("environment_steps", "time"))
    if steps and seconds and steps.value is not None:
        yield f"Reached {threshold:g} after {steps.value:,.0f} environment steps and {seconds.value:,.3g} s"
    elif threshold is not None:
        yield f"Not reached: {threshold:g} as the mean of {EPISODES} episodes in a row"
