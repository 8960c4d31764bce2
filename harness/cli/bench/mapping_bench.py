"""Finds the best way to run many trainings by running them, and measures how much the mapping strategies' choices lose.

    placerl bench mapping [--cells cartpole] [--budget-s 30]

A cell is a workload, a batch size and a number of cores. Its choices are all that a user may decide, such as the
devices, the training loop and the threads (`harness.validate.space`). The fastest one is found by successive halving,
whose last candidates are measured for long (`harness.validate.study`). Each cell has a process of its own, which is
pinned to its cores before it starts a thread.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import typer

from placerl.harness.cli.bench.command import SHOWN_FAILURES, Bench, section
from placerl.harness.cli.bench.training_bench import SMALL, TrainingCell
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report
from placerl.harness.measure.conditions import pinned, usable_cores
from placerl.harness.platforms import PlatformFile, of_this_machine
from placerl.harness.profile import simulated
from placerl.harness.runtime.units.process import ProcessUnit
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Run
from placerl.harness.validate.piece_times import BOARD
from placerl.harness.validate.study import HOPELESS, StudiedCell, StudyResult, study
from placerl.harness.validate.study_cell import SUITE, MeasuredCell
from placerl.harness.validate.study_file import NO_FILE, StudyFile
from placerl.harness.validate.study_summary import cell_lines, results, summary
from placerl.harness.workloads import Workload

CORES = (1, 2)
LIMIT_S = 3600.0
"""Seconds beyond its budget after which the process of a cell counts as stalled."""
OVERHEAD_S = 30.0
"""Seconds of a cell beyond its budget: its process, its trained state, creating and checking what is timed."""


@dataclass(frozen=True)
class StudiedWorkload:
    """A workload for which the best way to train is searched, at several batch sizes and numbers of cores.

    Attributes:
        training: the workload with its changes.
        batch_sizes: batch sizes of its cells; a cell is a workload, a batch size and a number of cores.
        cores: numbers of cores of its cells.
        simulated: whether the choices are those with the simulated FPGA, in virtual time.
    """

    training: TrainingCell
    batch_sizes: tuple[int, ...]
    cores: tuple[int, ...] = CORES
    simulated: bool = False

    def item(self) -> Workload:
        """Return the workload, whose replay holds a batch of every size."""
        return self.training.item()


def _workload(
    name: str, shipped: str, sizes: tuple[int, ...], cores: tuple[int, ...] = CORES, **changes: Any
) -> StudiedWorkload:
    """Return a workload of the study; `changes` as `TrainingCell` has them, with `__` for a dot."""
    fields = {field.replace("__", "."): value for field, value in changes.items()}
    fields["training.batch_sizes"] = list(sizes)
    return StudiedWorkload(TrainingCell(name, shipped, (), fields), sizes, cores)


def _with_fpga(name: str, shipped: str) -> StudiedWorkload:
    """Return a workload whose choices are those with the simulated FPGA."""
    return replace(_workload(name, shipped, (32,), (max(CORES),)), simulated=True)


def _ppo(name: str, shipped: str, sizes: tuple[int, ...], actors: int, length: int) -> StudiedWorkload:
    """Return PPO with some environments; `length` is T."""
    samples = actors * length
    return _workload(
        name,
        shipped,
        sizes,
        training__actors=actors,
        training__batch_size=sizes[0],
        training__learning_starts=samples,
        training__update_interval=1,
        algorithm__trajectory_length=length,
        replay__capacity=samples,
    )


SIZES = (32, 128, 512, 2048)
WORKLOADS = (
    _workload("cartpole-dqn-8-8", "cartpole-dqn", (*SIZES, 8192), network__hidden=SMALL["network.hidden"]),
    _workload("cartpole-ddpg-8-8", "cartpole-ddpg", (*SIZES, 16384)),
    _workload("hopper-ddpg-256-256", "hopper-ddpg", (*SIZES, 8192)),
    _workload("hopper-ddpg-400-300", "hopper-ddpg-400-300", SIZES),
    _workload("pong-dqn-cnn", "pong-dqn", (32, 64, 256)),
    _ppo("cartpole-ppo-1-env", "cartpole-ppo", (32, 64, 256), 1, 256),
    _ppo("cartpole-ppo-8-envs", "cartpole-ppo", (32, 64, 256), 8, 32),
    _ppo("hopper-ppo-1-env", "hopper-ppo", (64,), 1, 2048),
    _ppo("hopper-ppo-8-envs", "hopper-ppo", (64, 512), 8, 256),
    _with_fpga("cartpole-ddpg-8-8-fpga", "cartpole-ddpg"),
    _with_fpga("hopper-ddpg-256-256-fpga", "hopper-ddpg"),
)


def studied(
    workload: StudiedWorkload, batch_size: int, cores: int, budget_s: float, file: StudyFile = NO_FILE
) -> Sequence[StudyResult]:
    """Measure one cell in a process of its own, which is pinned to its cores, and return the rows.

    Args:
        file: keeps what is found, so that a process that was killed goes on.

    Returns:
        The rows of the cell; one row of status "not_run" if this process may not use so many cores.

    Raises:
        UnitError: the cell failed, or its process ended.
    """
    usable = usable_cores()
    cell = StudiedCell(workload.training.name, batch_size, cores)
    if len(usable) < cores:
        reason = f"needs: {cores} cores, of which this process may use {len(usable)}"
        return [cell.row("placerl", None, quantity="gradient_steps_per_s", status="not_run", reason=reason)]
    with pinned(usable[-cores:]):  # the process inherits it
        unit = ProcessUnit(
            str(cell), partial(_studying, workload, of_this_machine(), budget_s, file), threads=cores
        )
    with closing(unit):
        unit.submit(cell)
        return unit.result(budget_s + LIMIT_S)


def _studying(
    workload: StudiedWorkload, platform: PlatformFile, budget_s: float, file: StudyFile
) -> Callable[[StudiedCell], Sequence[StudyResult]]:
    """Return the function that measures a cell of a workload in its process."""

    here = simulated.with_device(platform, BOARD) if workload.simulated else platform

    def studied(cell: StudiedCell) -> Sequence[StudyResult]:
        measured = MeasuredCell(
            workload.item(), cell.batch_size, cell.cores, here, simulated=workload.simulated
        )
        with closing(measured) as timed:
            return study(cell, timed, budget_s, file=file)

    return studied


def cells_of(workloads: Sequence[StudiedWorkload], budget_s: float, only: str = "") -> list[Cell]:
    """Return the units of work of the benchmark, one for each workload, batch size and number of cores.

    Args:
        only: part of the key, such as "pong-dqn-cnn/32/1-core", of the cells to return; empty for all.
    """

    def file_of(key: str, run: Run) -> StudyFile:
        path = run.path.parent / "studies" / run.record.key / f"{key.replace('/', '-')}.json"
        return StudyFile(path, {"cell": key, "budget_s": budget_s})

    def remove(key: str, run: Run) -> None:
        file_of(key, run).remove()

    def measure(
        workload: StudiedWorkload, size: int, cores: int, key: str, run: Run, _: Report
    ) -> Sequence[StudyResult]:
        return studied(workload, size, cores, budget_s, file_of(key, run))

    cells = [
        Cell(
            key := f"{SUITE}/{workload.training.name}/{size}/{cores}-core",
            budget_s + OVERHEAD_S,
            partial(measure, workload, size, cores, key),
            stored=partial(remove, key),
        )
        for workload in workloads
        for cores in workload.cores
        for size in workload.batch_sizes
    ]
    return [one for one in cells if only in one.key]


def _not_run(rows: Sequence[StudyResult]) -> list[str]:
    """Return a line for each cell that was not run; other rows that were not run are of one choice."""
    whole = (row for row in rows if row.status == "not_run" and row.strategy == "placerl")
    return [f"- {m.workload}, B = {m.batch_size}: {m.reason}" for m in whole if m.choice is None]


def table(rows: Sequence[StudyResult]) -> str:
    """Return the results as Markdown: a summary, then a table with a line per cell, then what was not run.

    A cell is a workload, a batch size and a number of cores.
    """
    cells = results(rows)
    columns = ("cell", "best choice found", "gradient steps/s", "our choice", "its regret", "worst error")
    return "\n".join(
        [
            "# Mappings: choices, predictions and regrets",
            "",
            "The papers' strategies choose devices, under the loop that their model describes, with one thread and the "
            "workload's actors. This project's also chooses loop, D, precision, threads, actors and processes. The "
            "simulated FPGA has cells of its own, in virtual time. Choices predicted over "
            f"{HOPELESS:g} times slower than the best are not run. Provenance: measured; with the FPGA simulated, or "
            "modelled where it learns.",
            "",
            *summary(cells),
            "",
            *section("Cells", columns, cell_lines(cells)),
            *_not_run(rows),
        ]
    )


def bench(
    cells: Annotated[
        str,
        typer.Option("--cells", help="Only cells whose key, such as pong-dqn-cnn/32/1-core, contains this."),
    ] = "",
    budget_s: Annotated[
        float,
        typer.Option(
            "--budget-s", min=0, help="Seconds of one cell, besides starting it; 0 is the shortest."
        ),
    ] = 30.0,
) -> Bench[StudyResult]:
    """Find the best choice of many cells by running, and judge predictions and strategies by it (no GPU).

    Exit status 1 if a cell failed; the same command tries it again.
    """
    chosen = cells_of(WORKLOADS, budget_s, cells)
    if not chosen:
        raise UserError("command line", "--cells", repr(cells), "a part of a cell's key")

    def said(rows: Sequence[StudyResult]) -> list[str]:
        return [*summary(results(rows)), *_not_run(rows)[:SHOWN_FAILURES]]

    return Bench(SUITE, StudyResult, chosen, table, selecting=("cells",), summary=said)
