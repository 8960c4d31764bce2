"""The command `placerl rent`, which says which machine trains a workload to a return in what time, at what price."""

from collections.abc import Collection, Mapping, Sequence
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from placerl.harness.cli.app import app
from placerl.harness.cli.common import (
    BatchSizeOption,
    JsonOption,
    KnownOption,
    WorkloadArgument,
    batch_size_of,
    out,
    print_json,
)
from placerl.harness.core.errors import NotRunError, UserError

if TYPE_CHECKING:
    from placerl.harness.machines.curves import Curves
    from placerl.harness.machines.prices import Price
    from placerl.harness.machines.renting import Offer, Spread


@app.command(epilog="Example: `placerl rent cartpole-dqn --until 475 --cards cards/ --prices prices.toml`")
def rent(
    name: WorkloadArgument,
    until: Annotated[
        float, typer.Option("--until", metavar="RETURN", help="Mean return of 20 episodes to train to.")
    ],
    cards: Annotated[
        Path | None,
        typer.Option(
            "--cards",
            metavar="FOLDER",
            help="Cards of the machines, as `placerl card -o FILE` writes them, or bundles; by default the committed.",
        ),
    ] = None,
    known: KnownOption = None,
    prices: Annotated[
        Path | None, typer.Option("--prices", metavar="FILE", help="Prices by machine, as TOML.")
    ] = None,
    curves: Annotated[
        Path | None,
        typer.Option(
            "--curves",
            metavar="FOLDER",
            help="Folder of a store whose trainings give the gradient steps; by default the committed runs.",
        ),
    ] = None,
    batch_size: BatchSizeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rank machines of which only cards are known by what a training to a return would take and cost there.

    The rate of the best mapping is predicted from each card; how many gradient steps the return takes, and how often it
    is never reached, is known from learning curves. Both make the 95% intervals.
    """
    from placerl.harness import workloads
    from placerl.harness.machines import curves as learning_curves
    from placerl.harness.machines import prices as price_lists
    from placerl.harness.machines import renting
    from placerl.harness.machines.rates import Times, rates

    item = workloads.load(name)
    size = batch_size_of(item, batch_size)
    asked = price_lists.read(prices) if prices else {}
    machines, bundles = renting.machines(cards or renting.COMMITTED)
    bundles = renting.known_machines(known or (), item.name, size, bundles)
    if asked and not asked.keys() & machines.keys():
        allowed = ", ".join(machines)
        raise UserError(prices, "price.machine", ", ".join(asked), allowed, name=next(iter(asked)))
    times, best, failed = Times(bundles), {}, {}
    for machine, card in machines.items():
        rows = rates(item, size, card, times.on(card, item.name, size))
        chosen = next((row for row in rows if row.chosen and row.value), None)
        if chosen is None:
            failed[machine] = rows[0].reason
        else:
            best[machine] = chosen
    trained, steps = None, None
    try:
        trained = learning_curves.load(item, size, until, curves)
        steps = trained.steps_to(until)
    except NotRunError as error:
        failed[f"time to a return of {until:g}"] = str(error)
    if trained and steps and not any(map(isfinite, steps)):
        failed[f"time to a return of {until:g}"] = (
            f"none of {len(steps)} trainings reached it in {trained.longest:,} gradient steps ({trained.source}): "
            f"train longer, `placerl run {item.name} --steps N --results FOLDER`, then `--curves FOLDER`"
        )
    offers = renting.offers(best, steps, asked)
    if as_json:
        print_json([_plain(one, steps, trained) for one in offers])
    else:
        out.print(f"{item.name} to a mean return of {until:g}, batch size {size}: predicted (modelled)")
        if trained and steps:
            out.print(_of_curves(steps, trained))
        out.print(_table(offers))
        for line in _notes(offers, asked, machines):
            out.print(line)
    for what, reason in failed.items():
        typer.echo(f"{what}: not run: {reason}", err=True)
    if failed:
        raise typer.Exit(1)


def _of_curves(steps: Sequence[float], trained: "Curves") -> str:
    """Return in words how many seeds arrived, and when."""
    there = [f"{one:,.0f}" for one in sorted(steps) if isfinite(one)]
    took = f" after {' to '.join(dict.fromkeys((there[0], there[-1])))} gradient steps" if there else ""
    alone = "; one seed does not show the spread of seeds" if len(steps) == 1 else ""
    return f"{len(there)} of {len(steps)} seeds arrived{took} ({trained.source}){alone}"


def _table(offers: Sequence["Offer"]) -> Table:
    """Return a table of offers: numbers above their intervals, so that it fits into 60 columns."""
    currency = next((one.price.currency for one in offers if one.price), "")
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("machine", overflow="fold")
    for column in ("steps/s", "minutes", *([currency] if currency else [])):
        table.add_column(column, justify="right", no_wrap=True)
    for one in offers:
        rate = f"{'~' if one.rate.status == 'too_noisy' else ''}{_short(one.rate.value or 0.0)}"
        cells = [f"{one.machine}\n{one.rate.mapping}", rate]
        cells.append("not run" if one.seconds is None else _cell(one.seconds * (1 / 60)))
        if currency:
            cells.append("" if one.cost is None else _cell(one.cost))
        table.add_row(*cells)
    return table


def _cell(spread: "Spread") -> str:
    return f"{_short(spread.value)}\n({_short(spread.low)} to {_short(spread.high)})"


def _short(number: float) -> str:
    """Return a number with three digits; "never" for infinity."""
    if not isfinite(number):
        return "never"
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def _notes(offers: Sequence["Offer"], prices: Mapping[str, "Price"], machines: Collection[str]) -> list[str]:
    """Return lines on what the table does not show: noise, missing prices, and prices of other machines.

    Args:
        machines: names of all machines that have a card, also of those without an offer.
    """
    lines = []
    if any(one.rate.status == "too_noisy" for one in offers):
        lines.append("~: from a time that is too noisy")
    if any(one.seconds and not isfinite(one.seconds.high) for one in offers):
        lines.append("never: the return is not reached in as many steps as were trained")
    if prices:
        lines += [f"{one.machine}: {_said(one.price)}" for one in offers]
        lines += [f"{name}: a price, but no card" for name in prices if name not in machines]
    return lines


def _said(price: "Price | None") -> str:
    if price is None:
        return "no price"
    return f"{price.per_hour:g} {price.currency} an hour, {price.source}, {price.date}"


def _plain(one: "Offer", steps: Sequence[float] | None, trained: "Curves | None") -> dict[str, Any]:
    """Return an offer as JSON; None for what is never reached or not known."""
    row = one.rate
    plain: dict[str, Any] = {
        "machine": one.machine,
        "workload": row.workload,
        "batch_size": row.batch_size,
        "mapping": row.mapping,
        "status": row.status,
        "gradient_steps_per_s": row.value,
        "low_gradient_steps_per_s": row.low,
        "high_gradient_steps_per_s": row.high,
        "inputs": str(row.inputs),
        "provenance": "modelled",
    }
    for what, spread in (("seconds", one.seconds), ("cost", one.cost)):
        for part in ("value", "low", "high"):
            number = None if spread is None else getattr(spread, part)
            label = what if part == "value" else f"{part}_{what}"
            plain[label] = number if number is not None and isfinite(number) else None
    if one.price:
        plain["price"] = one.price.model_dump(mode="json")
    if trained and steps:
        arrived = len(steps) - steps.count(inf)
        plain |= {"seeds": len(steps), "seeds_that_arrived": arrived, "curves": trained.source}
        plain["gradient_steps"] = [one if isfinite(one) else None for one in steps]
    return plain
