"""The `placerl` command: a thin layer that reads arguments, calls the harness and prints.

Exit status: 0 on success, 1 when what was asked for could not be measured, 2 on a mistake in the input.
Results go to standard output, progress and messages to standard error.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from harness import learning, machine, predicting, reproduce, tiers, workers, workload
from harness.errors import UserError
from harness.mapping import Mapping
from harness.progress import bar, silent
from harness.report import export as exporting
from harness.report import site
from harness.revision import revision
from harness.runtime import compose
from harness.store import Measurement, Run, Store
from harness.tiers import TIERS, Tier

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Measure the pieces of deep reinforcement learning, map them to devices, and check the prediction.",
)
# Tables written to a file or a pipe are not cut to an 80-column terminal.
out = Console() if sys.stdout.isatty() else Console(width=160)

WorkloadArgument = Annotated[
    str, typer.Argument(metavar="WORKLOAD", help="A workload's name, or the path of its TOML file.")
]
BatchSizeOption = Annotated[
    int | None, typer.Option("--batch-size", help="Items a gradient step; the workload's own when left out.")
]
TierOption = Annotated[str, typer.Option("--tier", help=f"How much is measured: {', '.join(TIERS)}.")]
ResultsOption = Annotated[
    Path, typer.Option("--results", help="Folder of the store and the report.", envvar="PLACERL_RESULTS")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a script instead of a table.")]

RESULTS = Path("results")


def store_path(results: Path) -> Path:
    """Where a results folder keeps its measurements."""
    return results / "placerl.sqlite"


def begin(results: Path, tier: Tier, fresh: bool = False) -> Run:
    """Open the store and begin, or go on with, this machine's run of this revision and tier."""
    store = Store.open(store_path(results))
    return store.begin_run(tier.name, revision(), machine.describe().to_json(), fresh=fresh)


def print_json(data: Any) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(data, indent=2, default=str))


def loaded(name: str, batch_size: int | None) -> workload.Workload:
    """The workload, with the batch size asked for.

    One from a file gets a hash of its fields in its name: the file may change, and what is stored of an earlier
    one must not answer for it.
    """
    item = workload.load(name)
    if name not in workload.names():
        digest = hashlib.sha256(json.dumps(item.tables(), sort_keys=True).encode()).hexdigest()[:8]
        item = workload.override(item, "name", f"{item.name[:55]}-{digest}", name)
    return item if batch_size is None else workload.with_batch_size(item, batch_size, "--batch-size")


@app.command(epilog="Example: `placerl doctor --json`")
def doctor(as_json: JsonOption = False) -> None:
    """List this machine's devices, the backends it can run and why not, its links, and whether watts can be read."""
    description = machine.describe()
    if as_json:
        print_json(description.to_json())
    else:
        machine.show(description, out)


@app.command(epilog="Example: `placerl profile hopper-ddpg --batch-size 256`")
def profile(
    name: WorkloadArgument,
    batch_size: BatchSizeOption = None,
    tier_name: TierOption = "quick",
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Time every primitive of a workload on every backend that runs here."""
    item, tier = loaded(name, batch_size), tiers.tier(tier_name)
    predicting.require_replay(item)
    size = item.training.batch_size
    run = begin(results, tier)
    print_rows(profiled(run, item, size, tier), f"{item.name}, batch size {size}", as_json)


def profiled(run: Run, item: workload.Workload, batch_size: int, tier: Tier) -> list[Measurement]:
    """The primitive table of a workload, measured now unless the run holds it."""
    cell = reproduce.profile_cell(item, batch_size, tier)
    if not reproduce.finished(run, cell):
        with bar(cell.key) as report:
            reproduce.measure_now(run, cell, report)
    return run.measurements(suite="profile", workload=item.name, batch_size=batch_size)


def print_rows(rows: list[Measurement], title: str, as_json: bool) -> None:
    """Measurements as a table or as JSON."""
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
        value = row.reason if row.value is None else f"{row.value:.4g}"
        interval = "" if row.low is None or row.high is None else f"{row.low:.4g} to {row.high:.4g}"
        state = str(row.provenance) if row.status == "ok" else f"{row.provenance}, {row.status}"
        table.add_row(row.primitive, row.backend, row.device, row.quantity, value, interval, row.unit, state)
    out.print(table)


@app.command(name="map", epilog="Example: `placerl map hopper-ddpg --batch-size 256`")
def map_command(
    name: WorkloadArgument,
    batch_size: BatchSizeOption = None,
    tier_name: TierOption = "quick",
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Choose which device runs the learner, the replay management and the storage, and predict its throughput."""
    item, tier = loaded(name, batch_size), tiers.tier(tier_name)
    size = item.training.batch_size
    predicting.require_replay(item)
    run = begin(results, tier)
    rows = predicted(run, item, size, tier)
    if as_json:
        print_json([row.to_json() for row in rows])
        return
    table = Table(title=f"{item.name}, batch size {size}: mappings Learner-RMM-Storage")
    for column in ("strategy", "mapping", "predicted GPS", "unit", "largest term", "provenance"):
        table.add_column(column, no_wrap=True)
    for row in sorted(rows, key=lambda row: (row.backend, -(row.value or 0))):
        mark = "  <- chosen" if row.details["chosen"] else ""
        term, time_s = max(row.details["terms_s"].items(), key=lambda item: item[1])
        table.add_row(
            row.backend,
            row.details["mapping"] + mark,
            f"{row.value:,.1f}",
            "gradient steps/s",
            f"{term} {time_s * 1e6:,.1f} us",
            str(row.provenance),
        )
    out.print(table)


def predicted(run: Run, item: workload.Workload, batch_size: int, tier: Tier) -> list[Measurement]:
    """Every strategy's predictions for a workload, from the run's primitive table."""
    profiled(run, item, batch_size, tier)
    cell = reproduce.prediction_cell(item, batch_size)
    if not reproduce.finished(run, cell):
        reproduce.measure_now(run, cell, silent)
    return run.measurements(suite="prediction", workload=item.name, batch_size=batch_size)


@app.command(epilog="Example: `placerl run hopper-ddpg --mapping torch-native-cpu --seconds 60`")
def run(
    name: WorkloadArgument,
    mapping: Annotated[
        str | None,
        typer.Option("--mapping", help="LEARNER-RMM-STORAGE; what `placerl map` chose when left out."),
    ] = None,
    batch_size: BatchSizeOption = None,
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="Training time after the warm-up.")] = 30,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    tier_name: TierOption = "quick",
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Train under a mapping: gradient steps and environment steps per second, and episode returns."""
    item, tier = loaded(name, batch_size), tiers.tier(tier_name)
    size = item.training.batch_size
    chosen = Mapping.parse(mapping) if mapping else None
    if chosen:
        compose.check(item, chosen)
    else:
        predicting.require_replay(item)
    opened = begin(results, tier)
    if chosen is None:
        chosen = predicting.chosen_mapping(predicted(opened, item, size, tier))
    cell = reproduce.run_cell(item, size, seed, seconds, chosen)
    with bar(cell.key) as report:
        rows = reproduce.measure_now(opened, cell, report)
    print_rows(rows, f"{item.name}, batch size {size}, {chosen}", as_json)


@app.command(epilog="Example: `placerl compare hopper-ddpg --baselines sb3`")
def compare(
    name: WorkloadArgument,
    named: Annotated[str, typer.Option("--baselines", help="Names joined by commas, or `all`.")] = "sb3",
    tier_name: TierOption = "quick",
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Run a workload here and in other libraries, interleaved, and print the ratio of their throughput."""
    item, tier = loaded(name, None), tiers.tier(tier_name)
    names = named_baselines(named)
    predicting.require_replay(item)
    opened = begin(results, tier)
    predicted(opened, item, item.training.batch_size, tier)
    rows: list[Measurement] = []
    for baseline in names:
        cell = reproduce.compare_cell(item, baseline, tier)
        with bar(cell.key) as report:
            rows += reproduce.measure_now(opened, cell, report)
    print_rows(rows, f"{item.name} beside {named}", as_json)
    if any(row.status == "failed" for row in rows):
        raise typer.Exit(1)


def named_baselines(text: str) -> list[str]:
    """The baselines that a comma-separated list or `all` names."""
    known = workers.baseline_names()
    names = known if text == "all" else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise UserError(
                source="command line", field="--baselines", found=name, allowed=f"{', '.join(known)}, all"
            )
    return names


@app.command(epilog="Example: `placerl baselines sb3`")
def baselines(
    names: Annotated[str, typer.Argument(metavar="NAMES", help="Names joined by commas, or `all`.")] = "all",
) -> None:
    """Build the virtual environments of baselines; one that fails stops no other."""
    failed = False
    for name in named_baselines(names):
        failure = workers.build_baselines([name])[name]
        failed |= failure is not None
        typer.echo(f"{name}: {failure or 'ready'}")
        for line in failure.last_lines if failure else ():
            typer.echo(f"    {line}")
    raise typer.Exit(failed)


@app.command(epilog="Example: `placerl learn --tier quick`")
def learn(
    tier_name: TierOption = "quick",
    named: Annotated[str, typer.Option("--baselines", help="Names joined by commas, or `all`.")] = "sb3",
    mapping: Annotated[str, typer.Option("--mapping", help="Learner-RMM-Storage.")] = "torch-native-cpu",
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Train each algorithm here and in other libraries, and print the interquartile mean of its returns."""
    tier, under = tiers.tier(tier_name), Mapping.parse(mapping)
    cells = learning.plan(tier.name, [learning.OURS, *named_baselines(named)], under)
    compose.check(workload.load("cartpole-dqn"), under)
    opened = begin(results, tier)
    with bar("learn") as report:
        reproduce.execute(opened, cells, report)
    rows = learning.summaries(opened)
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        out.print(learning.table(rows))
    if len(rows) < sum(cell.key.endswith("/summary") for cell in cells) or any(row.reason for row in rows):
        raise typer.Exit(1)


@app.command(name="reproduce", epilog="Example: `placerl reproduce --tier quick`")
def reproduce_command(
    tier_name: TierOption = "quick",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure again what an earlier run finished.")
    ] = False,
    results: ResultsOption = RESULTS,
) -> None:
    """Measure, map, run and compare every workload of a tier; write the report; print the verdicts."""
    tier = tiers.tier(tier_name)
    cells = reproduce.plan(tier)
    opened = begin(results, tier, fresh)
    waiting = [cell for cell in cells if not reproduce.finished(opened, cell)]
    minutes = sum(cell.estimate_s for cell in waiting) / 60
    typer.echo(
        f"Tier {tier.name}: {len(cells)} cells, {len(cells) - len(waiting)} finished before "
        f"(--fresh measures them again), about {minutes:.0f} minutes to go.",
        err=True,
    )
    with bar("reproduce") as report:
        reproduce.execute(opened, cells, report)
    write_report(results)
    if failed := [cell.key for cell in cells if not reproduce.finished(opened, cell)]:
        typer.echo(f"Failed, {len(failed)}: {', '.join(failed)}; the next run tries them again.", err=True)
        raise typer.Exit(1)


def write_report(results: Path) -> None:
    """Write the report, then print where it is and the verdicts."""
    page, verdicts = site.write(store_path(results), results / "report")
    table = Table(title="Verdicts")
    for column in ("claim", "statement", "published", "ours", "verdict", "provenance"):
        table.add_column(column)
    for verdict in verdicts:
        if not verdict.needs:
            table.add_row(
                verdict.key,
                verdict.statement,
                verdict.published,
                verdict.ours,
                verdict.verdict,
                verdict.provenance,
            )
    out.print(table)
    if waiting := [verdict.key for verdict in verdicts if verdict.needs]:
        typer.echo(f"Not run, {len(waiting)}: {', '.join(waiting)}. The report says what each needs.")
    typer.echo(f"Report: {page.resolve()}")


@app.command(epilog="Example: `placerl report --results results`")
def report(results: ResultsOption = RESULTS) -> None:
    """Write the report of what is stored, without measuring anything."""
    write_report(results)


@app.command(epilog="Example: `placerl export --format csv,markdown,latex`")
def export(
    results: ResultsOption = RESULTS,
    to: Annotated[
        Path | None, typer.Option("--to", help="Folder to write to; `export` beside the store.")
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", help=f"Formats, separated by commas: {', '.join(exporting.FORMATS)}.")
    ] = "csv,parquet",
) -> None:
    """Write every stored measurement and every table of the report, with units and provenance."""
    chosen = [name.strip() for name in formats.split(",")]
    for path in exporting.write(store_path(results), to or results / "export", chosen):
        typer.echo(str(path))


def run_app() -> None:
    """Run the command line and exit."""
    try:
        app()
    except UserError as error:
        typer.echo(f"placerl: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("placerl: interrupted; what finished is stored", err=True)
        sys.exit(130)
