"""The command `placerl compare`, which trains a workload here and in other libraries and compares the speeds."""

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated

import typer
from rich.table import Table

from placerl.harness.cli.app import app
from placerl.harness.cli.common import (
    BatchSizeOption,
    JsonOption,
    ResultsOption,
    TierOption,
    WorkloadArgument,
    named_baselines,
    out,
    print_json,
    say,
)
from placerl.harness.compare import registry
from placerl.harness.compare.parts import PLAIN, OurSide, judged_parts
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import bar
from placerl.harness.core.revision import RESULTS
from placerl.harness.core.row import Row
from placerl.harness.loop.schedule import Environments, Schedule, is_on_policy
from placerl.harness.mapping import Mapping
from placerl.harness.plan import tiers
from placerl.harness.store.peak_memory import recorded
from placerl.harness.store.rows import ComparisonResult
from placerl.harness.workloads import Workload


def side_by_side(rows: Sequence[ComparisonResult]) -> Table:
    """Return a table with one line per baseline: throughputs, their ratio, returns and the verdict, or why it has none.

    Args:
        rows: rows of `harness.compare.rounds.compare`, those of one baseline one after another.
    """
    table = Table(
        caption="Steps a second: gradient steps, of PPO environment steps, of a replay alone its cycles. All of it "
        "measured here."
    )
    columns = ("its steps/s", "ours", "ours / its", "95% interval", "its return", "our return", "verdict")
    for column in ("baseline", *columns):
        table.add_column(column)
    for baseline, group in groupby(rows, key=lambda row: row.baseline):
        parts = {row.part: row for row in group}
        valued = {name: row for name, row in parts.items() if row.value is not None}
        ratio = parts.get("throughput_ratio")
        judged = judged_parts(ratio.rate if ratio else None)
        rates, returns = (
            [_rate(valued[part]) if part in valued else "" for part in parts_of_both]
            for parts_of_both in (judged[::-1], ("theirs, return", "ours, return"))
        )
        if ratio and ratio.value is not None:
            interval = f"{ratio.low:.3g} to {ratio.high:.3g}"
            ratio_text, verdict = f"{ratio.value:.3g}", ratio.verdict
            table.add_row(baseline, *rates, ratio_text, interval, *returns, verdict)
        else:
            reason = next((row.reason for row in parts.values() if row.value is None), "")
            table.add_row(baseline, *rates, "", "", *returns, reason)
    return table


def _rate(row: Row) -> str:
    return f"{row.value:.4g}" + (" (too noisy)" if row.status == "too_noisy" else "")


def returns(rows: Sequence[ComparisonResult]) -> list[str]:
    """Return a line of text for each comparison: both systems' episode returns, or why these were not compared."""
    return [
        f"{row.baseline}: {row.returns}"
        for row in rows
        if row.quantity == "throughput_ratio" and row.status == "ok"
    ]


def departures(rows: Sequence[ComparisonResult]) -> list[str]:
    """Return a line for each baseline that does not train the workload exactly as stated: how it differs."""
    deviations = {row.baseline: row.deviations for row in rows if row.part == "theirs" and row.deviations}
    return [
        f"{baseline}: " + "; ".join(f"{what}: {how}" for what, how in notes.items())
        for baseline, notes in deviations.items()
    ]


@app.command(epilog="Example: `placerl compare hopper-ddpg --baselines sb3`")
def compare(  # noqa: PLR0913 (a command: its options)
    name: WorkloadArgument,
    named: Annotated[str, typer.Option("--baselines", help="Names joined by commas, or `all`.")] = "sb3",
    batch_size: BatchSizeOption = None,
    mapping: Annotated[
        str | None,
        typer.Option(
            "--mapping",
            help="This project's LEARNER-RMM-STORAGE; what `placerl map` chose when left out. With a learner on a CUDA "
            "device, such as `torch:cuda-native-cpu`, the libraries' networks are on it too, and else on the CPU.",
        ),
    ] = None,
    alone: Annotated[
        bool, typer.Option("--alone", help="Compare only learner and replay, without environment steps.")
    ] = False,
    envpool: Annotated[
        bool,
        typer.Option(
            "--envpool", help="Step this project's environments, and not the baseline's, with EnvPool."
        ),
    ] = False,
    flushed: Annotated[
        bool,
        typer.Option(
            "--flush-subnormals",
            help="Run each baseline once more with subnormal numbers flushed to zero, as the native learner has them.",
        ),
    ] = False,
    tier_name: TierOption = "quick",
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Train a workload here and in other libraries in interleaved rounds, and print the ratio of their throughput.

    Both systems step the library's environments. Where this project steps native ones by default, a second row of each
    library says how it compares with these, and a third one how it does on all cores if its threads can run free.
    """
    from placerl.harness.mapping import predict
    from placerl.harness.plan import cell_kinds, execution
    from placerl.harness.plan.predicting import begin, loaded, predicted
    from placerl.harness.runtime import mapped_parts
    from placerl.harness.runtime.resolve import runs_free
    from placerl.harness.runtime.simulated_parts import is_simulated

    item, tier = loaded(name, batch_size), tiers.tier(tier_name)
    names = named_baselines(named)
    mapped = None if mapping is None else Mapping.parse(mapping)
    if named != "all":  # of all libraries, those that are a replay alone are compared without either option
        _check_train(names, {"--envpool": envpool, "--mapping": mapping is not None})
    _check(item, alone, envpool)
    if mapped:
        mapped_parts.check(item, mapped)
        if is_simulated(mapped):
            raise UserError(
                "command line", "--mapping", mapping, "devices that are here: a library has no virtual time"
            )
    opened = begin(results, tier)
    here = mapped or predict.chosen_mapping(predicted(opened, item, tier))
    rows: list[Row] = []
    sides = (OurSide(envpool=True),) if envpool else (PLAIN,) if alone else cell_kinds.sides(item)
    if not alone and not envpool and runs_free(item, here):
        sides += (OurSide(concurrent=True),)
    for baseline in names:
        for side in sides[:1] if registry.replay_alone(baseline) else sides:
            cell = cell_kinds.compare_cell(
                item,
                baseline,
                tier,
                batch_size,
                environment=not alone,
                ours=side,
                flushed=flushed,
                mapping=mapped,
            )
            with bar(cell.key) as report, recorded(opened):
                rows += execution.measure_now(opened, cell, report)
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        compared = [row for row in rows if isinstance(row, ComparisonResult)]
        out.print(side_by_side(compared))
        for line in [*returns(compared), *departures(compared)]:
            say(line)
    if any(row.status == "failed" for row in rows):
        raise typer.Exit(1)


def _check(item: Workload, alone: bool, envpool: bool) -> None:
    """Raise UserError before anything is measured for options that exclude each other or are not available."""
    if alone and is_on_policy(item):
        raise UserError("command line", "--alone", item.name, "a workload that learns from a replay")
    if alone and envpool:
        raise UserError("command line", "--envpool", "--alone too", "one of them: there is no environment")
    if envpool:
        from placerl.harness.runtime.resolve import check_environments

        check_environments(Schedule(environments=Environments.ENVPOOL), item)


def _check_train(baselines: Sequence[str], given: dict[str, bool]) -> None:
    """Raise UserError if an option of trainings is given with a baseline that is a replay alone."""
    replays = ", ".join(filter(registry.replay_alone, baselines))
    option = next((option for option, is_given in given.items() if is_given), "")
    if replays and option:
        found = f"{replays} among the baselines, which train nothing"
        raise UserError("command line", option, found, "baselines that train, or all")
