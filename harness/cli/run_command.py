"""The command `placerl run`, which trains a workload under a mapping and measures its throughput."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from placerl.harness.cli.app import app
from placerl.harness.cli.common import (
    BatchSizeOption,
    JsonOption,
    ResultsOption,
    TierOption,
    WorkloadArgument,
    cluster_extra,
    out,
    print_json,
    say,
)
from placerl.harness.cli.completion import completed, mappings
from placerl.harness.cli.schedule_options import with_schedule
from placerl.harness.core.errors import OptionName, UserError
from placerl.harness.core.progress import bar
from placerl.harness.core.revision import RESULTS
from placerl.harness.loop.schedule import Loop, Schedule

if TYPE_CHECKING:
    from placerl.harness.cluster.run import Asked
    from placerl.harness.core.row import Row
    from placerl.harness.mapping import Mapping
    from placerl.harness.runtime.measured_run import Extent
    from placerl.harness.store.cell import Cell
    from placerl.harness.store.store import Run
    from placerl.harness.workloads import Workload

_ON_CLUSTER = ("actors", "processes", "learners")
"""Options that a training over Ray actors supports, of those of a training on this machine."""
MOST_S, MOST_STEPS = 10**7, 10**12
"""Upper limits of a run: far more than anybody waits for, and finite."""
MOST_SEED = 2**32 - 1
"""The largest seed, as of the seeds that a workload lists (`harness.workloads.schema.Seed`)."""


@app.command(
    epilog="Example: `placerl run hopper-ddpg --mapping torch-native-cpu --actors 2 --processes 2 --overlap 16`"
)
@with_schedule
def run(  # noqa: PLR0913 (a command: its options)
    name: WorkloadArgument,
    *,
    mapping: Annotated[
        str | None,
        typer.Option(
            "--mapping",
            metavar="LEARNER-RMM-STORAGE",
            help="Targets, such as `native-opencl-cpu`; what `placerl map` chose when left out.",
            autocompletion=completed(mappings),
        ),
    ] = None,
    batch_size: BatchSizeOption = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds", min=1, max=MOST_S, help="Training time after the warm-up; 30 when left out."
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps", min=1, max=MOST_STEPS, help="Gradient steps after the warm-up, instead of a time."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=MOST_SEED, help="Seed of everything random.")] = 0,
    schedule: Schedule,
    loop: Annotated[
        Loop | None,
        typer.Option(
            "--loop",
            metavar="LOOP",
            help="Runs the mapping in this loop: `relaxed` is MAP's, with up to 50 batches sampled ahead by a replay "
            "manager that works while the learner does, and actors in processes; `concurrent` is that "
            "in C++ threads, which run free; `resident` leaves everything on the "
            f"learner's device. One of {', '.join(Loop)}.",
        ),
    ] = None,
    auto: Annotated[
        bool,
        typer.Option(
            "--auto",
            help="Divide the cores between actor and learner threads by PAL's Equation 5, from curves measured first, "
            "and say what that loses against the neighbouring divisions. With --replay-beside each learner has a "
            "replay manager, on a core of its own.",
        ),
    ] = False,
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray", help="Train over Ray actors, at least one environment each: an address, or `local`."
        ),
    ] = None,
    shards: Annotated[
        int | None, typer.Option("--shards", min=1, help="With --ray: parts of the replay; 1 when left out.")
    ] = None,
    place: Annotated[
        str,
        typer.Option(
            "--place",
            help="With --ray: resources of the machines for a role, as learners=big; those of the "
            "mapping's devices when left out.",
        ),
    ] = "",
    tier_name: TierOption = "quick",
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Train under a mapping, and print gradient and environment steps per second, steps per watt, and what was learnt.

    That is the return at the end (greedy episodes), the best while training, and after how many environment steps and
    seconds the task's threshold was reached.

    Options that the machine or the workload does not support are refused before anything starts. If a
    thread or process of the training fails, what was measured until then is stored, and the exit status is 1; likewise
    after Ctrl-C, with exit status 130.
    """
    from placerl.harness.core.row import Interrupted
    from placerl.harness.mapping import Mapping, predict
    from placerl.harness.mapping.target import NATIVE_MAPPING
    from placerl.harness.plan import cell_kinds, execution, tiers
    from placerl.harness.plan.predicting import begin, loaded, predicted
    from placerl.harness.runtime.resolve import check_unmapped, resolve
    from placerl.harness.store.peak_memory import recorded

    item, tier = loaded(name, batch_size), tiers.tier(tier_name)
    extent = _extent(seconds, steps)
    if ray is not None and loop is not None:
        raise UserError("command line", "--loop", loop, "nothing with --ray")
    on_cluster = _on_cluster(ray, schedule, shards, place)
    if auto:
        _check_auto(item, schedule, {"--mapping": mapping, "--loop": loop, "--ray": ray})

    def cell_of(mapping: "Mapping") -> "Cell":
        """Return the cell to run, whose options are checked."""
        if on_cluster:
            return on_cluster.cell(schedule.applied(item), mapping, seed, extent)
        resolved = resolve(schedule, item, mapping, loop=loop, gradient_steps=extent.steps)
        return cell_kinds.run_cell(resolved.workload, seed, extent, resolved)

    if auto:
        opened = begin(results, tier)
        mapping, schedule = NATIVE_MAPPING, _divided(opened, item, schedule, as_json)
        chosen = Mapping.parse(mapping)
        cell = cell_of(chosen)
    elif mapping is not None:  # everything is checked before anything is written
        chosen = Mapping.parse(mapping)
        cell = cell_of(chosen)
        opened = begin(results, tier)
    else:
        if not on_cluster and loop is None:  # before the seconds of a prediction
            check_unmapped(schedule, item)
        opened = begin(results, tier)
        chosen = predict.chosen_mapping(predicted(opened, item, tier))
        cell = cell_of(chosen)
    described = ", ".join(word for word in (str(chosen), loop and f"{loop} loop", str(schedule)) if word)
    title = f"{item.name}, batch size {item.training.batch_size}, {described}"
    try:
        with bar(cell.key) as report, recorded(opened):
            rows = execution.measure_now(opened, cell, report)
    except Interrupted as stop:
        if stop.rows:
            _show(stop.rows, title, item.training.solved_return, as_json)
        raise
    _show(rows, title, item.training.solved_return, as_json)
    if any(row.status == "failed" for row in rows):
        raise typer.Exit(1)


def _show(rows: "Sequence[Row]", title: str, threshold: float | None, as_json: bool) -> None:
    """Print what a training reached, as lines or as JSON."""
    if as_json:
        print_json([row.to_json() for row in rows])
        return
    from placerl.harness.cli import training_lines

    for line in (title, *training_lines.lines(rows, threshold)):
        out.print(line)


def _extent(seconds: float | None, steps: int | None) -> "Extent":
    """Return the length of the run; UserError if both are given, because one would be ignored."""
    from placerl.harness.runtime.measured_run import Extent

    if seconds is not None and steps is not None:
        raise UserError("command line", "--seconds", f"{seconds:g} and --steps {steps}", "one of them")
    return Extent(steps=steps) if seconds is None else Extent(seconds, steps)


def _check_auto(item: "Workload", schedule: Schedule, given: dict[str, str | None]) -> None:
    """Refuse options that contradict a division of the cores that is still to be chosen, and what has none."""
    from placerl.harness.mapping.target import NATIVE_MAPPING
    from placerl.harness.papers.pal import equation_5

    for option, found in given.items():
        if found not in (None, NATIVE_MAPPING):
            allowed = f"{NATIVE_MAPPING} with --auto" if option == "--mapping" else "nothing with --auto"
            raise UserError("command line", option, found, allowed)
    for name, value in schedule.given().items():
        if name not in ("actors", "presampled_batches", "replay_beside"):
            raise UserError("command line", OptionName(name), value, "nothing with --auto")
    equation_5.check(_with_batches_ahead(schedule, item), managed=schedule.replay_beside)


def _with_batches_ahead(schedule: Schedule, item: "Workload") -> "Workload":
    """Return the workload with the requested numbers of actors and of batches sampled ahead."""
    from placerl.harness import workloads

    field, ahead = "training.presampled_batches", schedule.ahead(item)
    return workloads.override(schedule.applied(item), field, ahead, OptionName("presampled_batches"))


def _divided(opened: "Run", item: "Workload", schedule: Schedule, as_json: bool) -> Schedule:
    """Measure the division of Equation 5 and its neighbours, say what they reached, and return its options."""
    from placerl.harness.papers.pal import equation_5
    from placerl.harness.plan import execution
    from placerl.harness.store.peak_memory import recorded

    item = _with_batches_ahead(schedule, item)
    cell = equation_5.cell(item, managed=schedule.replay_beside)
    with bar(cell.key) as report, recorded(opened):
        rows = execution.measure_now(opened, cell, report)
    if any(row.status == "failed" for row in rows):
        raise typer.Exit(1)
    for line in equation_5.lines(rows, item):
        typer.echo(line, err=True) if as_json else say(line)
    split = equation_5.chosen_split(rows, item)
    return replace(
        schedule, processes=split.actors, learners=split.learners, threads_native=True, pinned=True
    )


def _on_cluster(address: str | None, schedule: Schedule, shards: int | None, place: str) -> "Asked | None":
    """Return the requested cluster; UserError for options that a cluster does not support, or that need one."""
    if address is None:
        for name, found in (("--shards", shards), ("--place", place)):
            if found:
                raise UserError("command line", name, found, "nothing without --ray")
        return None
    for name, found in schedule.given().items():
        if name not in _ON_CLUSTER:
            raise UserError("command line", OptionName(name), found, "nothing with --ray")
    with cluster_extra(address):
        from placerl.harness.cluster.run import Asked
        from placerl.harness.cluster.training import Size
    actors = schedule.processes or schedule.actors or Size().actors
    return Asked(address, Size(actors, shards or 1, schedule.learners), place)
