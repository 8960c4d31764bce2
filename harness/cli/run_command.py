"""`placerl run`."""

from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.app import app
from harness.cli.common import (
    RESULTS,
    BatchSizeOption,
    JsonOption,
    ResultsOption,
    TierOption,
    WorkloadArgument,
    begin,
    cluster_extra,
    loaded,
    out,
    predicted,
    print_rows,
    value_text,
)
from harness.core.errors import UserError
from harness.core.progress import bar
from harness.core.row import Interrupted, Measurement
from harness.mapping import Mapping, predict
from harness.mapping.metrics import experiences_per_s
from harness.plan import plan, tiers
from harness.runtime.compose import DELAY, Fusion
from harness.runtime.measured_run import Extent
from harness.runtime.options import Options
from harness.store.cell import Cell
from harness.store.peak_memory import recorded

if TYPE_CHECKING:
    from harness.cluster.run import Asked

MOST_S, MOST_STEPS = 10**7, 10**12
"""Of a run: far more than anybody waits for, and finite."""


@app.command(
    epilog="Example: `placerl run hopper-ddpg --mapping torch-native-cpu --actors 2 --processes 2 --overlap 16`"
)
def run(
    name: WorkloadArgument,
    mapping: Annotated[
        str | None,
        typer.Option(
            "--mapping",
            help="LEARNER-RMM-STORAGE, such as `native[fixed32]-native-cpu`; what `placerl map` chose when left out.",
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
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    threads: Annotated[int, typer.Option("--threads", min=1, help="That the learner may compute with.")] = 1,
    actors: Annotated[
        int | None, typer.Option("--actors", help="Environments; the workload's own number when left out.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option("--processes", min=0, help="To step the environments in; 0: in this one.")
    ] = None,
    envpool: Annotated[
        bool, typer.Option("--envpool", help="Step the environments with EnvPool (extra `envpool`).")
    ] = False,
    presampled_batches: Annotated[
        int | None,
        typer.Option("--presampled-batches", min=0, help="D, batches sampled ahead; 0 is the strict loop."),
    ] = None,
    overlap: Annotated[
        int, typer.Option("--overlap", min=0, help="Gradient steps that the actors work beside; 0: in turns.")
    ] = 0,
    learners: Annotated[
        int, typer.Option("--learners", min=1, help="Processes that each differentiate a part of a batch.")
    ] = 1,
    reallocate: Annotated[
        bool, typer.Option("--reallocate", help="Move actors to training and back as they are needed.")
    ] = False,
    replay_beside: Annotated[
        bool,
        typer.Option("--replay-beside", help="Replay management and storage in a thread beside the learner."),
    ] = False,
    fusion: Annotated[
        Fusion | None, typer.Option("--fusion", help="What runs as one call; as much as can when left out.")
    ] = None,
    delay: Annotated[
        int | None,
        typer.Option(
            "--delay",
            min=1,
            help=f"Gradient steps after which a learner of precision `dynamic` narrows; {DELAY} when left out.",
        ),
    ] = None,
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
            help="With --ray: resources of the machines for a role, as learners=big,shards=big; those of the "
            "mapping's devices when left out.",
        ),
    ] = "",
    tier_name: TierOption = "quick",
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Train under a mapping: gradient steps and environment steps per second, per watt, and episode returns.

    What the machine or the workload cannot give is refused before anything starts. Where a unit dies on the way, what
    was measured until then is stored, and the exit status is 1; so it is after Ctrl-C, where the status is 130.
    """
    item, tier = loaded(name, batch_size), tiers.tier(tier_name)
    size = item.training.batch_size
    options = Options(
        actors=actors,
        threads=threads,
        processes=processes,
        envpool=envpool,
        presampled_batches=presampled_batches,
        overlap=overlap,
        learners=learners,
        reallocate=reallocate,
        replay_beside=replay_beside,
        fusion=fusion,
        delay=delay,
    )
    asked, chosen = options.applied(item), None if mapping is None else Mapping.parse(mapping)
    extent = _extent(seconds, steps)
    on_cluster = _on_cluster(ray, options, shards, place)

    def checked(mapping: Mapping) -> Cell:
        """What is to be run, before anything is written where the mapping is given."""
        if on_cluster:
            return on_cluster.cell(asked, mapping, size, seed, extent)
        options.check(asked, mapping, size)
        return plan.run_cell(asked, size, seed, extent, mapping, options)

    cell = checked(chosen) if chosen else None
    opened = begin(results, tier)
    if chosen is None or cell is None:
        chosen = predict.chosen_mapping(predicted(opened, item, size, tier))
        cell = checked(chosen)
    under = f"{chosen}, {options}" if str(options) else str(chosen)
    title = f"{item.name}, batch size {size}, {under}"
    try:
        with bar(cell.key) as report, recorded(opened):
            rows = plan.measure_now(opened, cell, report)
    except Interrupted as stop:
        if stop.rows:
            print_rows(stop.rows, title, as_json)
        raise
    print_rows(rows, title, as_json)
    if not as_json:
        _show_rates(rows)
    if any(row.status == "failed" for row in rows):
        raise typer.Exit(1)


def _show_rates(rows: list[Measurement]) -> None:
    """The papers' other rates: experiences consumed (PRL), inferences made (PPO, FIX), and GPS per watt (MAP)."""
    by_quantity = {row.quantity: row for row in rows}
    gps, steps = (by_quantity.get(f"{name}_steps_per_s") for name in ("gradient", "environment"))
    if gps and steps and gps.value and steps.value is not None and gps.batch_size:
        eps = experiences_per_s(gps.value, gps.batch_size)
        out.print(
            f"EPS {eps:,.0f} experiences/s, IPS {steps.value:,.0f} inferences/s ({gps.provenance})",
            soft_wrap=True,
        )
    if row := by_quantity.get("throughput_per_watt"):
        out.print(f"GPS/W {value_text(row)}", markup=False, soft_wrap=True)


def _extent(seconds: float | None, steps: int | None) -> Extent:
    """How long the run is; UserError where both are given: one of them would not be heeded."""
    if seconds is not None and steps is not None:
        raise UserError("command line", "--seconds", f"{seconds:g} beside --steps {steps}", "one of them")
    return Extent(steps=steps) if seconds is None else Extent(seconds, steps)


def _on_cluster(address: str | None, options: Options, shards: int | None, place: str) -> "Asked | None":
    """What is asked of a cluster; UserError for options that it does not have, and for its own without one."""
    if not address:
        if address is not None:
            raise UserError("command line", "--ray", repr(address), "an address, or local")
        for name, found in (("--shards", shards), ("--place", place)):
            if found:
                raise UserError("command line", name, found, "nothing without --ray")
        return None
    for name in (
        "threads",
        "envpool",
        "presampled_batches",
        "overlap",
        "reallocate",
        "replay_beside",
        "fusion",
        "delay",
    ):
        if (found := options.given().get(name)) is not None:
            raise UserError("command line", f"--{name.replace('_', '-')}", found, "nothing with --ray")
    with cluster_extra(address):
        from harness.cluster.run import Asked
        from harness.cluster.training import Size
    actors = options.processes or options.actors or Size().actors
    return Asked(address, Size(actors, shards or 1, options.learners), place)
