"""The cells of a run: units of work whose rows are stored together.

A cell is, for instance, the timings of one workload's primitives at one batch size, what the strategies predict from
them, a training, or a comparison with another library.
"""

from collections.abc import Sequence
from dataclasses import replace

from placerl.harness import platforms
from placerl.harness.compare import rounds
from placerl.harness.compare.parts import PLAIN, ComparedPart, OurSide, label
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.loop.schedule import STRICT, Environments
from placerl.harness.mapping import DEFAULT_STRATEGY, Mapping, predict
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.measure.cpu_quota import cpu_quota
from placerl.harness.plan.tiers import Tier
from placerl.harness.plan.under_load import beside_added, beside_others, under_these_conditions
from placerl.harness.profile import machine_peaks, measured, simulated
from placerl.harness.runtime import measured_run
from placerl.harness.runtime.measured_run import Extent
from placerl.harness.runtime.resolve import Resolved, resolve
from placerl.harness.store.cell import Cell
from placerl.harness.store.rows import PieceTime, PredictedRate
from placerl.harness.store.store import Run
from placerl.harness.workloads import Workload
from placerl.primitives.fpga.cycles import timed_block

MACHINE_PEAKS_S = 12.0  # including the set-up of the buffers
ALONE = {"cartpole-ddpg": "rllib_2_6_3", "hopper-ddpg": "rllib_2_6_3", "pong-dqn": "rllib"}
"""MAP's workloads, each with the line of RLlib that has its algorithm: tiers that have all three also compare them
without environment steps, only in learner and replay (MAP Fig. 14).
"""
SIMULATED_S = 2.0  # of one core in the quick tier; the learner's numbers are checked
SIMULATED_REPLAY_S = 0.5


def profile_cell(item: Workload, batch_size: int, tier: Tier, precisions: Sequence[str] = ()) -> Cell:
    """Return the cell (a unit of work of a run) that times a workload's primitives on every backend of this machine.

    Its rows are the workload's primitive table at this batch size.

    Args:
        precisions: number formats in which learners are timed as well as in float32. A table with such formats is
            stored apart from the one without.
    """

    def measure(run: Run, report: Report) -> Sequence[Row]:
        return measured.profile(item, batch_size, tier.profile_s, report, precisions)

    return Cell(_profile_key(item, batch_size, precisions), tier.profile_s, measure, item.name)


def _profile_key(item: Workload, batch_size: int, precisions: Sequence[str] = ()) -> str:
    if precisions:
        return f"{Suite.PRECISION_PROFILE}/{item.name}/{batch_size}/{'+'.join(precisions)}"
    return f"profile/{item.name}/{batch_size}"


def simulated_cell(item: Workload, batch_size: int, device: str) -> Cell:
    """Return the cell (a unit of work of a run) with the times of a workload's primitives on a simulated device.

    Its rows give the times at the device's clock frequency, next to the measured times of the primitive table.

    Args:
        device: name of the simulated device, such as "fpga:u200".
    """

    def measure(run: Run, report: Report) -> Sequence[Row]:
        return simulated.profile(item, batch_size, device, report)

    key = simulated.cell_key(item.name, batch_size, device)
    return _again_with_tools(Cell(key, SIMULATED_S, measure, provenance=Provenance.SIMULATED))


def simulated_replay_cell(item: Workload, batch_size: int, device: str) -> Cell:
    """Return the cell (a unit of work of a run) with the times of only a workload's replay on a simulated device."""

    def measure(run: Run, report: Report) -> Sequence[Row]:
        return simulated.replay(item, batch_size, device)

    key = f"{simulated.cell_key(item.name, batch_size, device)}/replay"
    return _again_with_tools(Cell(key, SIMULATED_REPLAY_S, measure, provenance=Provenance.SIMULATED))


def _again_with_tools(cell: Cell) -> Cell:
    """Return a cell that is due again if nothing of it was run and what it needs is installed by now."""

    def stale(run: Run) -> bool:
        return all(row.status == "not_run" for row in cell.rows(run)) and not timed_block.unavailable_reason()

    return replace(cell, stale=stale)


def simulated_prediction_cell(item: Workload, batch_size: int, device: str) -> Cell:
    """Return the cell (a unit of work of a run) that predicts throughputs if a simulated device is added.

    Its rows hold what every mapping strategy predicts. The strategies choose among this machine's devices and the
    simulated one. The predictions come from rows that the run holds: measured times of this machine and simulated
    times of the device.
    """

    def measure(run: Run, report: Report) -> Sequence[Row]:
        timed = run.rows(PieceTime, suite=Suite.PROFILE, workload=item.name, batch_size=batch_size)
        counted = run.rows(PieceTime, suite=simulated.SUITE, workload=item.name, batch_size=batch_size)
        table = [*timed, *(row for row in counted if row.device == device)]
        rows = beside_added(
            lambda times: simulated.predictions(item, batch_size, times, device), table, {device}
        )
        return under_these_conditions(rows)

    key = f"prediction/{item.name}/{batch_size}/{device}"
    needs = (_profile_key(item, batch_size), simulated.cell_key(item.name, batch_size, device))
    return _again_if_out_of_date(Cell(key, 0, measure, provenance=Provenance.MODELLED, needs=needs))


def prediction_cell(item: Workload, batch_size: int, precisions: Sequence[str] = ()) -> Cell:
    """Return the cell (a unit of work of a run) that predicts the throughput of every mapping on this machine.

    A mapping assigns learner, replay management and storage to devices. Every strategy makes its own predictions, from
    the times of primitives that the run holds (`profile_cell`), without further measurements.
    """

    def measure(run: Run, report: Report) -> Sequence[Row]:
        suite = Suite.PRECISION_PROFILE if precisions else Suite.PROFILE
        table = run.rows(PieceTime, suite=suite, workload=item.name, batch_size=batch_size)
        table = [row for row in table if row.precisions == tuple(precisions)]
        every = predict.measurements(item, batch_size, table, platforms.of_this_machine())
        rows = [beside_others(row, cpu_quota().share) for row in every]
        if precisions:
            rows = [
                replace(row, suite=Suite.PRECISION_PREDICTION, precisions=tuple(precisions)) for row in rows
            ]
        return under_these_conditions(rows)

    cell = Cell(
        _prediction_key(item, batch_size, precisions),
        0,
        measure,
        item.name,
        provenance=Provenance.MODELLED,
        needs=(_profile_key(item, batch_size, precisions),),
    )
    return _again_if_out_of_date(cell)


def _again_if_out_of_date(cell: Cell) -> Cell:
    """Return a cell of predictions that is due again if times that it needs were measured later, or if it holds no
    choice of the default strategy.

    It holds none, for instance, if it was made while the times were missing because measuring them had failed.
    """

    def stale(run: Run) -> bool:
        predicted = (row for row in cell.rows(run) if isinstance(row, PredictedRate))
        chosen = any(row.strategy == DEFAULT_STRATEGY and row.chosen for row in predicted)
        return not chosen or cell.older_than_needed(run)

    return replace(cell, stale=stale)


def _prediction_key(item: Workload, batch_size: int, precisions: Sequence[str] = ()) -> str:
    if precisions:
        return f"{Suite.PRECISION_PREDICTION}/{item.name}/{batch_size}/{'+'.join(precisions)}"
    return f"prediction/{item.name}/{batch_size}"


def machine_peaks_cell() -> Cell:
    """Return the cell (a unit of work of a run) that measures each device's peak arithmetic and copy bandwidths."""
    return Cell(
        f"{Suite.MACHINE_PEAKS}/machine",
        MACHINE_PEAKS_S,
        lambda run, report: machine_peaks.profile(MACHINE_PEAKS_S, report),
    )


def run_cell(item: Workload, seed: int, extent: Extent, given: Resolved | None = None) -> Cell:
    """Return the cell (a unit of work of a run) that trains a workload under a mapping.

    A mapping assigns learner, replay management and storage to devices.

    If a failure or Ctrl-C ends the training early, the rows measured until then are stored, and the next run trains
    again.

    Args:
        given: how this workload is trained, under a given mapping; None: with the default options, under the mapping
            that the default strategy chooses from the run's predictions.
    """

    batch_size = item.training.batch_size

    def measure(run: Run, report: Report) -> Sequence[Row]:
        resolved = given or resolve(STRICT, item, chosen_mapping(run, item, batch_size))
        return measured_run.train(resolved, seed, extent, report)

    under = "".join(f"/{part}" for part in (given.mapping, given.schedule) if str(part)) if given else ""
    key = f"run/{item.name}/{batch_size}/seed{seed}{under}"
    needs = () if given else (_prediction_key(item, batch_size),)
    cell = Cell(key, extent.seconds, measure, item.name, needs=needs, batch_size=batch_size)
    return _again_if_cut_short(cell)


def compare_cell(
    item: Workload,
    baseline: str,
    tier: Tier,
    batch_size: int | None = None,
    *,
    environment: bool = True,
    ours: OurSide = PLAIN,
    flushed: bool = False,
    mapping: Mapping | None = None,
) -> Cell:
    """Return the cell (a unit of work of a run) that compares this project with another library on a workload.

    The cell times both in interleaved rounds. If the tier says so, it then trains both to the same number of
    environment steps and compares their returns. On native environments, whose trajectories are Gymnasium's, this
    project learns the same as on these, so that returns are compared on Gymnasium's only.

    Args:
        batch_size: a batch size other than the workload's own.
        environment: whether environments are stepped; if not, only learner and replay are compared.
        ours: features that this project uses and the library does not. With the concurrent loop both have a thread for
            each core.
        flushed: whether the library runs once more with subnormal numbers treated as zero.
        mapping: this project's mapping; None: the one that the default strategy chooses from the run's predictions.
            The library's networks are on the learner's CUDA device, or else on the CPU.
    """
    size = batch_size or item.training.batch_size

    returns = None if ours.native_environments else tier.returns
    cores = usable_cores() if ours.concurrent else []

    def measure(run: Run, report: Report) -> Sequence[Row]:
        return rounds.compare(
            item,
            mapping or chosen_mapping(run, item, size),
            [baseline],
            budget_s=tier.compare_s,
            progress=report,
            settings=rounds.ComparisonSettings(
                batch_size=size,
                threads=len(cores) or 1,
                cpus=cores or None,
                environment=environment,
                ours=ours,
                returns=returns,
                flushed=[baseline] if flushed else [],
                asked=mapping is not None,
            ),
        )

    part = rounds.compared_part([baseline], environment)
    name = label(baseline, part, ours, len(cores), str(mapping or ""))
    key = f"compare/{item.name}/{name}" + (f"/{batch_size}" if batch_size else "")
    key += "/flushed" if flushed else ""
    needs = () if mapping else (_prediction_key(item, size),)
    trains = part is ComparedPart.TRAINING
    estimate_s = tier.compare_s + (returns.budget_s if returns and trains else 0.0)
    cell = Cell(key, estimate_s, measure, item.name, (baseline,), needs=needs, batch_size=size, label=name)
    return _again_if_cut_short(cell)


def sides(item: Workload) -> tuple[OurSide, ...]:
    """Return how this project trains in comparisons: on the library's environments, and as shipped if that differs."""
    native = STRICT.stepping(item) is Environments.NATIVE
    return (PLAIN, OurSide(native_environments=True)) if native else (PLAIN,)


def _again_if_cut_short(cell: Cell) -> Cell:
    """Return a cell that is due again if a row of its last attempt failed, though others were measured before."""
    return replace(cell, stale=lambda run: any(row.status == "failed" for row in cell.rows(run)))


def chosen_mapping(run: Run, item: Workload, batch_size: int) -> Mapping:
    """Return the mapping that the default strategy chose for a workload, from the run's last predictions.

    A mapping assigns learner, replay management and storage to devices.
    """
    rows = run.rows(PredictedRate, suite=Suite.PREDICTION, workload=item.name, batch_size=batch_size)
    return predict.chosen_mapping(reversed(rows))  # earlier attempts come first
