"""The main job: the plan of a run, and the loop that carries it out.

A plan is a list of cells. A cell is a unit of work whose rows are stored together, such as the timings of one
workload's primitives at one batch size. Each cell is measured once and stored as soon as it ends, so that an
interrupted run continues with the next cell: a finished one is never repeated.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cache

from placerl.harness import papers, platforms, workloads
from placerl.harness.compare import rounds
from placerl.harness.compare.parts import PLAIN, ComparedPart, OurSide, label
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report, part
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.revision import CodeWatch
from placerl.harness.core.row import HowTimed, Interrupted, Row
from placerl.harness.core.suites import Suite
from placerl.harness.loop.schedule import STRICT, Environments, Loop
from placerl.harness.mapping import DEFAULT_STRATEGY, VALIDATED, Mapping, predict
from placerl.harness.measure.conditions import shared_conditions, usable_cores
from placerl.harness.measure.cpu_quota import cpu_quota
from placerl.harness.measure.noise import last_noise
from placerl.harness.papers import Claim
from placerl.harness.plan.last_result import in_words
from placerl.harness.plan.tiers import TIERS, Tier
from placerl.harness.profile import machine_peaks, measured, simulated
from placerl.harness.runtime import measured_run
from placerl.harness.runtime.measured_run import Extent
from placerl.harness.runtime.resolve import Resolved, resolve
from placerl.harness.store.cell import Cell
from placerl.harness.store.crash_marker import MAX_CRASHES, crash_marker
from placerl.harness.store.peak_memory import CellPeak
from placerl.harness.store.rows import PieceTime, PredictedRate
from placerl.harness.store.store import Run
from placerl.harness.validate.plan import cells as validation_cells
from placerl.harness.workloads import Workload
from placerl.primitives.fpga.cycles import timed_block

PRECISION_PREDICTIONS = Suite.PRECISION_PREDICTION
MACHINE_PEAKS_S = 12.0  # including the set-up of the buffers
SIMULATED_DEVICE = "fpga:u200"  # MAP's
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
        return f"{measured.PRECISION_SUITE}/{item.name}/{batch_size}/{'+'.join(precisions)}"
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
        return _under_these_conditions(rows)

    key = f"prediction/{item.name}/{batch_size}/{device}"
    needs = (_profile_key(item, batch_size), simulated.cell_key(item.name, batch_size, device))
    return _again_if_out_of_date(Cell(key, 0, measure, provenance=Provenance.MODELLED, needs=needs))


def prediction_cell(item: Workload, batch_size: int, precisions: Sequence[str] = ()) -> Cell:
    """Return the cell (a unit of work of a run) that predicts the throughput of every mapping on this machine.

    A mapping assigns learner, replay management and storage to devices. Every strategy makes its own predictions, from
    the times of primitives that the run holds (`profile_cell`), without further measurements.
    """

    def measure(run: Run, report: Report) -> Sequence[Row]:
        suite = measured.PRECISION_SUITE if precisions else Suite.PROFILE
        table = run.rows(PieceTime, suite=suite, workload=item.name, batch_size=batch_size)
        table = [row for row in table if row.precisions == tuple(precisions)]
        every = predict.measurements(item, batch_size, table, platforms.of_this_machine())
        rows = [beside_others(row, cpu_quota().share) for row in every]
        if precisions:
            rows = [replace(row, suite=PRECISION_PREDICTIONS, precisions=tuple(precisions)) for row in rows]
        return _under_these_conditions(rows)

    cell = Cell(
        _prediction_key(item, batch_size, precisions),
        0,
        measure,
        item.name,
        provenance=Provenance.MODELLED,
        needs=(_profile_key(item, batch_size, precisions),),
    )
    return _again_if_out_of_date(cell)


BUSY_THREADS = {Loop.OVERLAPPED: 2, Loop.RELAXED: 3, Loop.CONCURRENT: 3}
"""Threads that are busy at the same time in a loop; one in the others. Each has a core in a prediction."""
SPARED = 0.1
"""Of the cores that a prediction assumes, those that others may use: it is then off by 10% at most."""


def _under_these_conditions(rows: Sequence[Row]) -> Sequence[Row]:
    """Return predictions that state the CPU quota and the noise under which they were made."""
    shared = HowTimed(conditions=shared_conditions())
    return [replace(row, timed=shared) for row in rows]


def beside_others(row: PredictedRate, share: float = 1.0) -> PredictedRate:
    """Return a prediction as a CPU quota and the processes that run now leave it.

    It is too noisy if these leave fewer cores than the loop of its strategy keeps busy: what they take from which
    thread, no prediction knows.

    Args:
        share: share of a core's time that a quota leaves to a thread.
    """
    noise, cores = last_noise(), len(usable_cores())
    if noise is None:
        return predict.under_load(row, share, "")
    needed = min(cores, BUSY_THREADS.get(VALIDATED[row.strategy].loop, 1))
    lacks = cores - (noise.busy_cores or 0.0) < needed - SPARED
    return predict.under_load(row, share, noise.warning() if lacks else "")


def beside_added(
    predicting: Callable[[Sequence[PieceTime]], Sequence[PredictedRate]],
    times: Sequence[PieceTime],
    added: Collection[str],
) -> list[PredictedRate]:
    """Return predictions for this machine with added devices, as a CPU quota and the processes that run now leave them.

    A quota stops this machine's threads, not a device that is added to it. The machine's own mappings are multiplied
    by the quota, as without the devices. Those with a part on such a device are predicted from times of this machine
    that are as much longer, and the strategies choose among these rates.

    Args:
        predicting: returns the predictions from times.
        times: of this machine and of the added devices.
        added: names of the devices, such as "fpga:u200".
    """
    share, whole = cpu_quota().share, predicting(times)
    if share == 1:
        return [beside_others(row) for row in whole]
    own = {
        (row.strategy, row.mapping): row
        for row in whole
        if row.value is not None and not Mapping.parse(row.mapping).devices & set(added)
    }
    slowed = [row if row.device in added else _longer(row, 1 / share) for row in times]
    rows = []
    for row in predicting(slowed):
        alone = own.get((row.strategy, row.mapping))
        if alone is None:
            rows.append(beside_others(row))
        else:
            chosen = replace(alone, chosen=row.chosen, slow_chosen=row.slow_chosen)
            rows.append(beside_others(chosen, share))
    return rows


def _longer(row: PieceTime, factor: float) -> PieceTime:
    ends = {
        name: end * factor for name in ("value", "low", "high") if (end := getattr(row, name)) is not None
    }
    return replace(row, **ends)


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
        return f"{PRECISION_PREDICTIONS}/{item.name}/{batch_size}/{'+'.join(precisions)}"
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


def plan(tier: Tier) -> list[Cell]:
    """Return the cells (units of work of a run) that a tier measures, in order.

    Each cell comes after the cells whose rows it needs.
    """
    cells: list[Cell] = [machine_peaks_cell()]
    for item in map(workloads.load, tier.workloads):
        sizes = {size for size in tier.batch_sizes if size <= item.replay.capacity}
        sizes |= {item.training.batch_size, *(item.training.batch_sizes if tier.own_batch_sizes else ())}
        for batch_size in sorted(sizes):
            cells += [profile_cell(item, batch_size, tier), prediction_cell(item, batch_size)]
            cells.append(simulated_cell(item, batch_size, SIMULATED_DEVICE))
        if item.replay.prioritized and item.algorithm.name != "ppo":
            more = {size for size in tier.simulated_replay_sizes if size <= item.replay.capacity}
            cells += [simulated_replay_cell(item, size, SIMULATED_DEVICE) for size in sorted(more - sizes)]
        for seed in item.training.seeds[: tier.seeds]:
            cells.append(run_cell(item, seed, Extent(tier.run_s)))
        baselines = tier.compared_with(item.algorithm.name)
        cells += [
            compare_cell(item, baseline, tier, ours=ours)
            for baseline in baselines
            for ours in (sides(item) if tier.shipped else (PLAIN,))
        ]
        cells += [
            compare_cell(item, baseline, tier, batch_size, environment=False)
            for baseline in baselines
            if ALONE.get(item.name) == baseline and ALONE.keys() <= set(tier.workloads)
            for batch_size in item.training.batch_sizes
        ]
    cells += papers.cells(tier)
    if tier.validate_s:
        cells += validation_cells(tier.name, tier.validate_s, only=tier.validated)
    return cells


def needed(cells: list[Cell], chosen: Sequence[Claim], tier: Tier) -> list[Cell]:
    """Return only the cells of a plan that are needed to judge some of the papers' claims.

    Returns:
        The cells whose rows one of the claims reads, and the cells that these depend on, in the order of the plan.
    """
    keys = set[str]().union(*(claim.needs_cells([cell.key for cell in cells], tier) for claim in chosen))
    for cell in reversed(cells):  # a cell follows those that it needs
        if cell.key in keys:
            keys.update(cell.needs)
    return [cell for cell in cells if cell.key in keys]


def tier_for(claim: Claim, at_least: str) -> str:
    """Return the name of the smallest tier, not smaller than a given one, that measures anything for a claim.

    Args:
        at_least: name of the tier to begin with, which is also returned if no tier measures anything for the claim.
            A name that is not a tier's counts as the smallest tier's.
    """
    names = list(TIERS)
    first = at_least if at_least in TIERS else names[0]
    later = names[names.index(first) :]
    return next((name for name in later if claim.needs_cells(_keys(name), TIERS[name])), first)


@cache
def _keys(tier_name: str) -> tuple[str, ...]:
    """Return the keys of a tier's plan, cached: a report needs them once per claim."""
    return tuple(cell.key for cell in plan(TIERS[tier_name]))


def execute(
    run: Run, cells: list[Cell], report: Report, last: Callable[[str], None] = lambda _: None
) -> None:
    """Measure those cells (units of work) of a plan that the run does not hold yet, and store each as soon as it ends.

    Cells that failed in an earlier attempt, or whose stored rows are out of date, are measured again.

    If a cell raises an exception, a row with the error is stored instead, and the run continues. The same is stored
    for a cell in which the process died `MAX_CRASHES` times.

    If the code is edited meanwhile, the run stops, and the rows of the current cell are not stored: they would be of
    another revision than the run's.

    Args:
        report: called with the expected seconds done, their total, and the cell's key.
        last: called with what a cell found, in words, when it ends.

    Raises:
        UserError: the code was edited since the run began; the finished cells are stored.
    """
    code = CodeWatch()
    sizes_s = [max(cell.estimate_s, 1) for cell in cells]
    total_s = sum(sizes_s)
    for number, cell in enumerate(cells):
        done_s = sum(sizes_s[:number])
        report(done_s, total_s, cell.key)
        if cell.due(run):
            inner = part(report, done_s, sizes_s[number], total_s, cell.key)
            rows = measure_and_store(run, cell, inner, code)
            last(in_words(rows))
    report(total_s, total_s, "done")


def measure_and_store(run: Run, cell: Cell, report: Report, code: CodeWatch) -> Sequence[Row]:
    """Measure a cell (a unit of work) and store its rows, or the error that it raises; return what was stored.

    A process that dies meanwhile leaves a mark next to the store (`crash_marker`); after `MAX_CRASHES` deaths the cell
    is stored as failed instead of measured.

    Raises:
        UserError: the code was edited since the run began; the cell's rows are not stored.
        Interrupted: the measurement was interrupted; the rows that it had until then are stored.
    """
    check_unchanged(code, run)
    with crash_marker(run.path, run.record.key, cell.key) as deaths:
        peak = CellPeak(run)
        rows: Sequence[Row]
        try:
            if deaths >= MAX_CRASHES:
                raise RuntimeError(f"the process died in it {deaths} times: out of memory, or killed")
            rows = _measured(run, cell, report, code)
        # one failing cell must not stop the others; its error is stored and shown
        except Exception as error:
            rows = [cell.failure(error)]
        check_unchanged(code, run)
        with run.writing():
            cell.store(run, rows)
            peak.store(cell.key)
    tell_stored(run, cell)
    return rows


def tell_stored(run: Run, cell: Cell) -> None:
    """Call what a cell (a unit of work) has to be called once its rows are stored, unless they are a failure's."""
    if cell.finished(run):
        cell.stored(run)


def measure_now(run: Run, cell: Cell, report: Report) -> Sequence[Row]:
    """Measure a cell (a unit of work of a run) even if the run holds its rows, store the rows and return them.

    Raises:
        Interrupted: the measurement was interrupted; the rows that it had until then are stored.
        UserError: the code was edited during the measurement; nothing is stored.
        Exception: whatever else the measurement raises reaches the caller; nothing is stored.
    """
    code, peak = CodeWatch(), CellPeak(run)
    rows = _measured(run, cell, report, code)
    check_unchanged(code, run)
    with run.writing():
        cell.store(run, rows)
        peak.store(cell.key)
    return rows


def check_unchanged(code: CodeWatch, run: Run) -> None:
    """Raise UserError if the code was edited since the run began, as `code` has watched."""
    if code.changed():
        allowed = f"{run.record.revision} until the run ends; the finished cells are kept"
        raise UserError("code", "revision", "another, because files were edited during the run", allowed)


def _measured(run: Run, cell: Cell, report: Report, code: CodeWatch) -> Sequence[Row]:
    """Return a cell's rows; if it is interrupted, the rows so far are stored first, unless the code was edited."""
    try:
        return cell.measured(run, report)
    except Interrupted as stop:
        if stop.rows and not code.changed():
            cell.store(run, stop.rows)
        raise
