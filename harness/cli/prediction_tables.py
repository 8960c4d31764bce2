"""Prints predicted rates of mappings, and the times that they are predicted from."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.table import Table

from placerl.harness.cli.common import out

if TYPE_CHECKING:
    from placerl.harness.plan.predicting import Predictions
    from placerl.harness.store.rows import PieceTime, PredictedRate


def show_side_by_side(by_name: "Mapping[str, Predictions]") -> None:
    """Print the choice on each platform, and how many times as fast it is as that on the first."""
    from placerl.harness.mapping.answer import chosen_of

    first = 0.0
    for name, predicted in by_name.items():
        if (chosen := chosen_of(predicted.rows)) is None:
            out.print(f"{name}: no mapping was chosen", markup=False)
            continue
        first = first or chosen.gps
        said = f"{chosen.strategy} chooses {chosen.mapping}: {chosen.gps:,.1f} gradient steps/s"
        out.print(f"{name}: {said}, {chosen.gps / first:.3g} times the first", markup=False)


def show_inputs(rows: "list[PieceTime]") -> None:
    """Print the times from which mappings of another platform or machine are predicted."""
    from placerl.harness.mapping.answer import MACHINE

    machine = rows[0].notes.get(MACHINE)
    title = f"Times of {machine}" if machine else "Modelled times: the longest term of each roofline"
    table = Table(title=title)
    for column in ("primitive", "target", "us", "from", "provenance"):
        table.add_column(column)
    for row in rows:
        time = "not run" if row.value is None else f"{row.value * 1e6:,.3f}"
        if row.low and row.high:
            time += f" ({row.low * 1e6:,.3g} to {row.high * 1e6:,.3g})"
        how = row.reason or row.formula or ""
        table.add_row(row.primitive, row.target or "", time, how, str(row.provenance))
    out.print(table)


def show_predictions(rows: "list[PredictedRate]", title: str, everything: bool) -> None:
    """Print what each strategy chooses, or all of its predictions if `everything`, in gradient steps per second."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("strategy", no_wrap=True)
    table.add_column("mapping", overflow="fold")
    for column in ("steps/s", *(("largest term",) if everything else ())):
        table.add_column(column, justify="right", no_wrap=True)
    predicted = [row for row in rows if row.value is not None]
    for row in sorted(predicted, key=lambda row: (row.strategy, -(row.value or 0))):
        if not (row.chosen or everything):
            continue
        mark = "  <- chosen" if row.chosen and everything else ""
        term, time_s = max((row.terms_s or {}).items(), key=lambda item: item[1])
        table.add_row(
            row.strategy,
            row.mapping + mark,
            f"{'~' if row.status == 'too_noisy' else ''}{row.value:,.1f}",
            *((f"{term} {time_s * 1e6:,.1f} us",) if everything else ()),
        )
    if any(row.status == "too_noisy" for row in predicted):
        table.caption, table.caption_justify = "~: from a time that is too noisy", "left"
    out.print(table)
    mappings = len({row.mapping for row in predicted})
    if not everything:
        out.print(f"Chosen among {mappings} mappings by predicted rates; --all prints every prediction.")
    for row in predicted:
        if row.chosen and (settings := row.settings):
            said = ", ".join(f"{name} = {value}" for name, value in settings.items())
            out.print(f"{row.strategy} chooses {row.mapping} with {said}", markup=False)
    for row in predicted:
        if row.chosen and row.slow_link_us is not None:
            there = next((r for r in predicted if r.strategy == row.strategy and r.slow_chosen), row)
            choice = "the same" if there is row else there.mapping
            out.print(
                f"{row.strategy}: at {row.slow_link_us:,g} us a transfer over links that state no latency, its "
                f"choice is {choice}, {there.slow_gps:,.1f} gradient steps/s",
                markup=False,
            )
    for row in rows:
        if row.value is None:
            out.print(f"{row.strategy}: not run: {row.reason}", markup=False)
