"""Carries out the benchmarks: each states its cells (units of work of a run) and its table, and nothing else.

`placerl bench NAME` measures the cells that the run does not hold yet, as `placerl reproduce` does with its plan: an
interrupted benchmark continues with the next cell, and its table is made from the stored rows.
"""

import inspect
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import typer

from placerl.harness.cli.common import JsonOption, ResultsOption, exit_if_failed, print_json, print_markdown
from placerl.harness.compare import registry
from placerl.harness.core.errors import UserError
from placerl.harness.core.files import check_writable, write_atomically
from placerl.harness.core.progress import Report, bar
from placerl.harness.core.revision import RESULTS
from placerl.harness.core.row import Row
from placerl.harness.measure import statistics
from placerl.harness.plan import execution, tiers
from placerl.harness.plan.predicting import begin
from placerl.harness.report import machine_facts
from placerl.harness.report.text_tables import TextTable, as_markdown
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Run

R = TypeVar("R", bound=Row)
RoundsOption = Annotated[
    int,
    typer.Option(
        "--rounds", min=statistics.FEWEST_PAIRS, help="Samples of each side; fewer for want of time."
    ),
]
BuildOption = Annotated[
    bool, typer.Option("--build", help="First create missing environments of other libraries.")
]
SHOWN_FAILURES = 5
"""Failed cells that the terminal names where it shows a summary instead of the table."""


def _nothing() -> None:
    """Do nothing; the default of `Bench.close`."""


@dataclass(frozen=True)
class Bench(Generic[R]):
    """What a benchmark measures, and how its results are shown.

    Attributes:
        name: name of the table's folder, with which the keys of the cells begin, such as "bench-replay".
        kind: the kind of rows of which the results are shown.
        cells: what is measured, in order. The keys need not say which options of the command differ from their
            defaults: this is added to them.
        table: returns the table in Markdown, given the rows of the cells.
        selecting: the options that only select among cells, or that the keys state: they are not added to the keys.
        builds: folders in `baselines/` whose virtual environments are created first if they are missing. The cells
            in which something failed or was not run are then measured again.
        summary: returns the lines to print instead of a long table, given the rows; None: the table is printed.
        draw: writes further files into a folder, given the rows.
        close: releases what the cells share.
    """

    name: str
    kind: type[R]
    cells: Sequence[Cell]
    table: Callable[[Sequence[R]], str]
    selecting: tuple[str, ...] = ()
    builds: Sequence[str] = ()
    summary: Callable[[Sequence[R]], Sequence[str]] | None = None
    draw: Callable[[Sequence[R], Path], None] = lambda rows, out: None
    close: Callable[[], None] = _nothing


def cell(key: str, measure: Callable[[Report], Sequence[Row]], estimate_s: float = 0.0) -> Cell:
    """Return a cell that needs no rows of others.

    Args:
        key: its name within a run, such as "bench-replay/1048576".
        measure: does the work and returns the rows; gets a function to call with the progress.
    """
    return Cell(key, estimate_s, lambda _, report: measure(report))


def as_command(make: Callable[..., Bench[Any]]) -> Callable[..., None]:
    """Return the command of a benchmark, which has the benchmark's options and those of `carry_out`."""
    own = inspect.signature(make, eval_str=True).parameters
    shared = {
        name: parameter
        for name, parameter in inspect.signature(carry_out, eval_str=True).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }

    def command(**values: Any) -> None:
        given = {name: values.pop(name) for name in own}
        changed = {name: value for name, value in given.items() if value != own[name].default}
        carry_out(make(**given), changed, **values)

    parameters = [*own.values(), *shared.values()]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = make.__doc__
    return command


def carry_out(
    bench: Bench[R],
    changed: dict[str, Any],
    *,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Folder of the table, by default in that of `--results`."),
    ] = None,
    results: ResultsOption = RESULTS,
    tier: Annotated[
        str, typer.Option("--tier", help="Tier of the run that the rows are stored with.")
    ] = "quick",
    again: Annotated[
        bool, typer.Option("--again", help="Also measure cells again that the run holds.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure the cells of a benchmark that are due, store their rows, and write and print its table.

    Args:
        changed: values of the benchmark's options that are not the defaults.
        out: folder of `table.md`; created if it does not exist; None: that of the benchmark's name in `results`.
        as_json: whether to print the rows as JSON instead of the table, which is written in any case.

    Raises:
        UserError: there is no such tier, or a store or folder cannot be written.
        Exit: a cell failed.
    """
    folder, chosen_tier = out or results / bench.name, tiers.tier(tier)
    check_writable(folder)
    with closing(begin(results, chosen_tier)) as run:
        cells = _measured(bench, run, changed, again)
        stored = [row for one in cells for row in one.rows(run)]
        failed = [one.key for one in cells if one.failed(run)]
        made_by = _made_by(run)
    rows = [row for row in stored if isinstance(row, bench.kind) and row.quantity != "failure"]
    failures = [f"- {row.primitive}: {row.reason}" for row in stored if row.quantity == "failure"]
    text = "\n".join([bench.table(rows) if rows or not cells else "", *failures, "", made_by, ""])
    if as_json:
        print_json([row.to_json() for row in stored])
    elif bench.summary is None:
        print_markdown(text.split("\n"))
    else:
        lines = bench.summary(rows)
        print_markdown([*lines, *failures[:SHOWN_FAILURES], f"Table: {folder / 'table.md'}"])
    write_atomically(folder / "table.md", lambda path: path.write_text(text, encoding="utf-8"))
    if rows:
        bench.draw(rows, folder)
    exit_if_failed(failed)


def _measured(bench: Bench[Any], run: Run, changed: dict[str, Any], again: bool) -> Sequence[Cell]:
    """Measure the cells that are due, and return all; their keys state the changed options."""
    for name, failure in registry.build_baselines(bench.builds).items() if bench.builds else ():
        if failure:
            typer.echo(f"{name}: {failure}", err=True)
    settings = [f"{name}={value}" for name, value in changed.items() if name not in bench.selecting]
    cells = [replace(one, key="/".join([one.key, *settings])) for one in bench.cells]
    asked = [one for one in cells if again or (bench.builds and _lacks(one, run))]
    due = [replace(one, stale=lambda _: True) if one in asked else one for one in cells]
    if cells and not any(one.due(run) for one in due):
        typer.echo("The run holds every cell; --again measures them again.", err=True)
    try:
        with bar(bench.name) as report:
            execution.execute(run, due, report, report.last)
    finally:
        bench.close()
    return cells


def _lacks(one: Cell, run: Run) -> bool:
    """Return whether something of a stored cell failed or was not run, such as for want of a library."""
    return any(row.status in ("failed", "not_run") for row in one.rows(run))


def _made_by(run: Run) -> str:
    record = run.record
    return (
        f"Run begun {record.started_at}, revision `{record.revision[:12]}`, machine `{record.fingerprint}`: "
        f"{machine_facts.in_a_line(record.machine)}."
    )


def numbers(option: str, text: str) -> list[int]:
    """Return the positive integers of a comma-separated list.

    Raises:
        UserError: an entry is not an integer, or below 1.
    """
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not part.isdecimal() or int(part) < 1:
            allowed = "whole numbers of at least 1, separated by commas"
            raise UserError("command line", option, repr(part), allowed)
    return [int(part) for part in parts]


def chosen(option: str, text: str, allowed: Sequence[str]) -> list[str]:
    """Return the names of a comma-separated list, which is empty if the text is `none`."""
    names = [] if text == "none" else [part.strip() for part in text.split(",")]
    for name in names:
        if name not in allowed:
            raise UserError("command line", option, repr(name), f"{', '.join(allowed)}, none", name=name)
    return names


def not_run(reason: str) -> None:
    """Print why nothing can be measured here, and exit with status 1; does nothing if the reason is empty."""
    if reason:
        typer.echo(f"not run: {reason}", err=True)
        raise typer.Exit(1)


def joined(values: Sequence[object]) -> str:
    """Return values as one text, with commas between them, for the default of an option that takes such a list."""
    return ", ".join(map(str, values))


def shown(row: Row, scale: float = 1.0, digits: str = ".3g") -> str:
    """Return a row's value with its 95% interval as text, "~" before one that is too noisy; its status without a value.

    Args:
        scale: factor to the unit that is shown, such as 1e6 from seconds to microseconds.
    """
    if row.value is None:
        return row.status.replace("_", " ")
    spread = (
        ""
        if row.low is None or row.high is None
        else f" [{row.low * scale:{digits}}, {row.high * scale:{digits}}]"
    )
    return f"{'~' if row.status == 'too_noisy' else ''}{row.value * scale:{digits}}{spread}"


def reached(low: float, high: float, goal: float) -> str:
    """Return whether a value is at least the goal: "met", "missed", or "no verdict" if its interval holds the goal."""
    return "met" if low >= goal else "missed" if high < goal else "no verdict"


def section(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table with a title as lines of Markdown, the last of which is empty."""
    cells = tuple(map(tuple, rows))
    table = TextTable("table", title, tuple(columns), cells, "placerl bench")
    return [*as_markdown(table).splitlines(), ""]
