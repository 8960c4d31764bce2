"""Holds what several commands share: their options, the run that stores their rows, and printing of rows."""

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from placerl.harness import workloads
from placerl.harness.compare import registry
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import bar, silent
from placerl.harness.core.revision import STORE_NAME, revision
from placerl.harness.core.suites import Suite
from placerl.harness.measure.conditions import quota_warning
from placerl.harness.plan import plan
from placerl.harness.plan.tiers import TIERS, Tier
from placerl.harness.platforms import this_machine
from placerl.harness.profile import simulated as simulated_profile
from placerl.harness.runtime.learner_memory import check_learner
from placerl.harness.store.peak_memory import recorded
from placerl.harness.store.store import Measurement, Run, Store
from placerl.primitives.quantization.precision import FLOAT_32, NAMES

# Tables written to a file or a pipe are not cut to an 80-column terminal. Markup is off: `native[fixed32]` is a
# target, not a style.
out = Console(markup=False) if sys.stdout.isatty() else Console(width=160, markup=False)

OTHER_PRECISIONS = NAMES[1:]

WorkloadArgument = Annotated[
    str,
    typer.Argument(
        metavar="WORKLOAD",
        help="A workload's name, or the path of its TOML file.",
        autocompletion=lambda incomplete: [n for n in workloads.names() if n.startswith(incomplete)],
    ),
]
BatchSizeOption = Annotated[
    int | None, typer.Option("--batch-size", help="Items per gradient step; by default the workload's own.")
]
TierOption = Annotated[
    str,
    typer.Option(
        "--tier", help=f"How much is measured: {', '.join(TIERS)}.", autocompletion=lambda: list(TIERS)
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option("--device", help=f"A simulated device: {', '.join(simulated_profile.DEVICES)}."),
]
PrecisionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--precision",
        help=f"Learners of these precisions as well as {FLOAT_32}: {', '.join(OTHER_PRECISIONS)}; may be repeated. "
        "What is measured so is stored apart.",
    ),
]
ResultsOption = Annotated[
    Path, typer.Option("--results", help="Folder of the store and the report.", envvar="PLACERL_RESULTS")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a script instead of a table.")]

RESULTS = Path("results")


def store_path(results: Path) -> Path:
    """Return the path of the store, a database of SQLite, in a folder of results."""
    return results / STORE_NAME


def begin(results: Path, tier: Tier, fresh: bool = False) -> Run:
    """Open the store, a database of results, and begin a run, or resume the last one.

    A run is the part of the store with the rows of one machine, revision of the code and tier. If the machine is not
    quiet, or a CPU quota limits this process, a line on standard error says so.

    Args:
        results: folder of the store.
        tier: says how much is measured.
        fresh: whether to begin a new run in any case.
    """
    store = Store.open(store_path(results))
    machine = this_machine.describe()
    for line in (quota_warning(), machine.noise.warning() if machine.noise else ""):
        if line:
            typer.echo(line, err=True)
    return store.begin_run(tier.name, revision(), machine.to_json(), fresh=fresh)


def loaded(name: str, batch_size: int | None) -> workloads.Workload:
    """Return a workload, with another batch size if one is requested.

    If the workload comes from a file of the user, a hash of its fields is added to its name: the file may change, and
    rows that were stored for an earlier version must not be used for the new one.

    Args:
        name: a shipped workload's name, or the path of a TOML file.
        batch_size: items per gradient step; None: the workload's own.

    Raises:
        UserError: there is no such workload, a field of it is wrong, or its learner does not fit this machine's memory.
    """
    item = workloads.load(name)
    if name not in workloads.names():
        digest = hashlib.sha256(json.dumps(item.tables(), sort_keys=True).encode()).hexdigest()[:8]
        item = workloads.override(item, "name", f"{item.name[:55]}-{digest}", name)
    if batch_size is not None:
        item = workloads.with_batch_size(item, batch_size, "--batch-size")
    check_learner(item, item.training.batch_size)
    return item


def asked_precisions(names: list[str] | None, device: str | None = None) -> tuple[str, ...]:
    """Return the precisions that `--precision` requests, without float32, which is always measured.

    Each is returned once, in the order of `OTHER_PRECISIONS`.

    Args:
        names: the names given on the command line.
        device: name of a simulated device, which computes only in float32; None: there is none.

    Raises:
        UserError: there is no such precision, or it is requested together with a simulated device.
    """
    for name in names or ():
        if name not in NAMES:
            raise UserError("command line", "--precision", name or "nothing", ", ".join(NAMES))
    found = tuple(name for name in OTHER_PRECISIONS if name in (names or ()))
    if found and device is not None:
        raise UserError("command line", "--precision", ", ".join(found), f"{FLOAT_32} with --device {device}")
    return found


def profiled(
    run: Run, item: workloads.Workload, batch_size: int, tier: Tier, precisions: Sequence[str] = ()
) -> list[Measurement]:
    """Return the times of a workload's primitives on every backend; measure them first if the run does not hold them.

    Args:
        run: the part of the store that holds and gets the rows.
        item: the workload.
        batch_size: items per call.
        tier: gives the time to spend.
        precisions: number formats in which learners are timed as well as in float32.
    """
    cell = plan.profile_cell(item, batch_size, tier, precisions)
    if cell.due(run):
        with bar(cell.key) as report, recorded(run):
            plan.measure_now(run, cell, report)
    if precisions:
        return cell.rows(run)
    return run.measurements(suite=Suite.PROFILE, workload=item.name, batch_size=batch_size)


def simulated(run: Run, item: workloads.Workload, batch_size: int, device: str) -> list[Measurement]:
    """Return the times of a workload's primitives on a simulated device; simulate them first if they are not stored.

    Args:
        run: the part of the store that holds and gets the rows.
        item: the workload.
        batch_size: items per call.
        device: name of the simulated device, such as "fpga:u200".
    """
    cell = plan.simulated_cell(item, batch_size, device)
    if cell.due(run):
        with bar(cell.key) as report, recorded(run):
            plan.measure_now(run, cell, report)
    return [row for row in cell.rows(run) if row.suite == simulated_profile.SUITE]


def predicted_with(
    run: Run, item: workloads.Workload, batch_size: int, tier: Tier, device: str
) -> list[Measurement]:
    """Return the throughputs that are predicted for a workload if a simulated device is added to this machine.

    Each mapping strategy assigns the parts of a training to devices, and predicts the throughput of the assignments.
    Times of primitives that are not stored yet are measured or simulated first.

    Args:
        run: the part of the store that holds and gets the rows.
        item: the workload.
        batch_size: transitions per gradient step.
        tier: gives the time to spend on measurements.
        device: name of the simulated device, such as "fpga:u200".
    """
    profiled(run, item, batch_size, tier)
    simulated(run, item, batch_size, device)
    cell = plan.simulated_prediction_cell(item, batch_size, device)
    if cell.due(run):
        plan.measure_now(run, cell, silent)
    return cell.rows(run)


def predicted(
    run: Run, item: workloads.Workload, batch_size: int, tier: Tier, precisions: Sequence[str] = ()
) -> list[Measurement]:
    """Return the throughputs that are predicted for a workload on this machine, from times of its primitives.

    Each mapping strategy assigns the parts of a training to devices, and predicts the throughput of the assignments.
    Times that are not stored yet are measured first.

    Args:
        run: the part of the store that holds and gets the rows.
        item: the workload.
        batch_size: transitions per gradient step.
        tier: gives the time to spend on measurements.
        precisions: number formats in which learners are timed as well as in float32.
    """
    profiled(run, item, batch_size, tier, precisions)
    cell = plan.prediction_cell(item, batch_size, precisions)
    if cell.due(run):
        plan.measure_now(run, cell, silent)
    return cell.rows(run)


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


def named_baselines(text: str, field: str = "--baselines", *, training: bool = False) -> list[str]:
    """Return the baselines that a comma-separated list names; `all` names every one.

    Args:
        text: the list.
        field: the option or argument that holds the list, for the message.
        training: whether only baselines that train are allowed, and not those that are only a replay.

    Raises:
        UserError: there is no such baseline, or it is not allowed.
    """
    known = [name for name in registry.baseline_names() if not (training and registry.replay_alone(name))]
    names = known if text == "all" else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise UserError("command line", field, repr(name), f"{', '.join(known)}, all")
    return names


def exit_if_failed(failed: Sequence[str]) -> None:
    """Name the cells (units of work) that failed, and exit with status 1; does nothing if none did.

    Args:
        failed: keys of the cells, which the next run of the same command measures again (`Cell.failed`).
    """
    if failed:
        typer.echo(f"Failed, {len(failed)}: {', '.join(failed)}; the next run tries them again.", err=True)
        raise typer.Exit(1)


def print_json(data: Any) -> None:
    """Print data, such as dicts and lists, as one JSON document on standard output."""
    typer.echo(json.dumps(data, indent=2, default=str))


def print_rows(rows: list[Measurement], title: str, as_json: bool) -> None:
    """Print measurements as a table, or as JSON if `as_json`.

    Args:
        rows: the measurements.
        title: title of the table.
        as_json: whether to print JSON.
    """
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
        table.add_row(row.primitive, row.backend, row.device, row.quantity, value, interval, row.unit, state)
    out.print(table)


def value_text(row: Measurement) -> str:
    """Return a row's value as text with four significant digits, or the reason why it has none."""
    if row.value is not None:
        return f"{row.value:.4g}"
    return f"not run: {row.reason.removeprefix('not run: ')}" if row.status == "not_run" else row.reason
