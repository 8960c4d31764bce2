"""Holds what several commands share: their options, and printing of rows."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from placerl.harness.cli.completion import OTHER_PRECISIONS, TIERS, completed, workloads
from placerl.harness.cli.screen import WIDE, Screen
from placerl.harness.core.errors import OptionName, UserError
from placerl.harness.profile.simulated_devices import DEVICES

if TYPE_CHECKING:
    from placerl.harness.core.row import Row
    from placerl.harness.workloads import Workload

# Tables written to a file or a pipe are not cut to an 80-column terminal, unless COLUMNS asks for it. Markup is off:
# `native[fixed32]` is a target, not a style.
_NARROWED = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
out = Screen(markup=False, highlight=sys.stdout.isatty(), width=None if _NARROWED else WIDE)

_MOST_VALUES = 4
"""Numbers of one claim that are printed; a terminal is narrow, and the report shows all."""

WorkloadArgument = Annotated[
    str,
    typer.Argument(
        metavar="WORKLOAD",
        help="A workload's name, or the path of its TOML file.",
        autocompletion=completed(workloads),
    ),
]
BatchSizeOption = Annotated[
    int | None, typer.Option("--batch-size", help="Items per gradient step; by default the workload's own.")
]
TierOption = Annotated[
    str,
    typer.Option(
        "--tier", help=f"How much is measured: {', '.join(TIERS)}.", autocompletion=completed(lambda: TIERS)
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option("--device", help=f"A simulated device: {', '.join(DEVICES)}."),
]
KnownOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--known",
        metavar="FILE",
        help="The bundle of a machine that was measured, next to the committed ones; may be repeated.",
    ),
]
PrecisionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--precision",
        help=f"Learners of these precisions as well as float32: {', '.join(OTHER_PRECISIONS)}; may be repeated. "
        "What is measured so is stored apart.",
        autocompletion=completed(lambda: OTHER_PRECISIONS),
    ),
]
ResultsOption = Annotated[
    Path, typer.Option("--results", help="Folder of the store and the report.", envvar="PLACERL_RESULTS")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a script instead of a table.")]


@contextmanager
def cluster_extra(address: str) -> Iterator[None]:
    """Turn a failed import in the block into a UserError that names the extra `cluster`, which `--ray` needs.

    Args:
        address: the value of `--ray`, for the message.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        found = f"{address!r}, but {error.name} is not installed"
        raise UserError(
            "command line", "--ray", found, "with the extra 'cluster': pip install 'placerl[cluster]'"
        ) from None


def batch_size_of(item: "Workload", asked: int | None) -> int:
    """Return the batch size that `--batch-size` requests, or the workload's own.

    Raises:
        UserError: it is out of range, or more than the workload's replay holds.
    """
    if asked is None:
        return item.training.batch_size
    from placerl.harness.workloads import with_batch_size

    return with_batch_size(item, asked, OptionName("batch_size")).training.batch_size


def named_baselines(text: str, field: str = "--baselines", *, training: bool = False) -> list[str]:
    """Return the baselines that a comma-separated list names, each once; `all` names every one.

    Args:
        field: the option or argument that holds the list, for the message.
        training: whether only baselines that train are allowed, and not those that are only a replay.

    Raises:
        UserError: there is no such baseline, or it is not allowed.
    """
    from placerl.harness.compare import registry

    known = [name for name in registry.baseline_names() if not (training and registry.replay_alone(name))]
    names = known if text == "all" else list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in known:
            raise UserError("command line", field, repr(name), f"{', '.join(known)}, all")
    return names


def exit_if_failed(failed: Sequence[str]) -> None:
    """Name the cells (units of work) that failed, and exit with status 1; does nothing if none did."""
    if failed:
        typer.echo(f"Failed, {len(failed)}: {', '.join(failed)}; the next run tries them again.", err=True)
        raise typer.Exit(1)


def say(text: str) -> None:
    """Print lines of text on standard output; on a narrow screen they are broken between words."""
    out.print(text, markup=False, highlight=False, soft_wrap=True)


def print_markdown(lines: Iterable[str]) -> None:
    """Print lines of Markdown on standard output; on a narrow screen its tables are printed as others are."""
    out.markdown(lines)


def print_json(data: Any) -> None:
    """Print data, such as dicts and lists, as one JSON document on standard output."""
    typer.echo(json.dumps(data, indent=2, default=str))


def print_files(paths: Iterable[Path], as_json: bool) -> None:
    """Print the paths of files the moment each is written, one a line, or at the end as JSON if `as_json`."""
    written = []
    for path in paths:
        written.append(str(path))
        if not as_json:
            typer.echo(str(path))
    if as_json:
        print_json({"files": written})


def print_list(described: Mapping[str, str], kind: str, as_json: bool) -> None:
    """Print names and what each is, one a line, or as JSON under the name of their kind if `as_json`."""
    if as_json:
        print_json({kind: dict(described)})
        return
    width = max(map(len, described), default=0)
    for name, text in described.items():
        say(f"{name:<{width}}  {text}")


def print_rows(rows: "Sequence[Row]", title: str, as_json: bool) -> None:
    """Print measurements as a table, or as JSON if `as_json`."""
    if as_json:
        print_json([row.to_json() for row in rows])
        return
    table = Table(title=title)
    for column in (
        "primitive",
        "backend",
        "device",
        "quantity",
        "value",
        "95% interval",
        "unit",
        "provenance",
    ):
        table.add_column(column)
    for row in rows:
        value = value_text(row)
        interval = "" if row.low is None or row.high is None else f"{row.low:.4g} to {row.high:.4g}"
        state = str(row.provenance) if row.status == "ok" else f"{row.provenance}, {row.status}"
        if row.status == "not_run":  # no number: nothing was simulated or measured
            state = ""
        table.add_row(row.primitive, row.who, row.where, row.quantity, value, interval, row.unit, state)
    out.print(table)


def value_text(row: "Row") -> str:
    """Return a row's value as text with four significant digits, or the reason why it has none."""
    if row.value is not None:
        return f"{row.value:.4g}"
    return f"not run: {row.reason.removeprefix('not run: ')}" if row.status == "not_run" else row.reason


def in_short(values: str) -> str:
    """Return the first of a claim's numbers, which are separated by "; ", and how many more there are."""
    parts = values.split("; ")
    rest = len(parts) - _MOST_VALUES
    return values if rest <= 1 else "; ".join([*parts[:_MOST_VALUES], f"and {rest} more"])
