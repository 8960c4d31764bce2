"""Predicts the throughput of a workload's mappings; times that the store does not hold are measured first.

`placerl map` and `placerl.map` both answer from `predictions`.
"""

import hashlib
import json
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from placerl.harness import platforms, workloads
from placerl.harness.core.errors import COMMAND_LINE, OptionName, UserError
from placerl.harness.core.progress import bar
from placerl.harness.core.revision import RESULTS, revision, store_path
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import absent_platforms, predict, roofline
from placerl.harness.measure.conditions import quota_warning
from placerl.harness.measure.cpu_quota import cpu_quota
from placerl.harness.pieces.memory import check_learner
from placerl.harness.plan import cell_kinds, execution, tiers, under_load
from placerl.harness.plan.tiers import Tier
from placerl.harness.platforms import overheads, this_machine, what_if
from placerl.harness.profile import lent
from placerl.harness.profile import simulated as simulated_profile
from placerl.harness.store.cell import Cell
from placerl.harness.store.peak_memory import recorded
from placerl.harness.store.rows import PieceTime, PredictedRate
from placerl.harness.store.store import Run, Store
from placerl.primitives.quantization.precision import FLOAT_32, NAMES, OTHER_PRECISIONS

_PRECISIONS, _DEVICE = OptionName("precisions", "--precision"), OptionName("device")
_PLATFORM, _KNOWN, _CHANGES = OptionName("platform"), OptionName("known"), OptionName("changes", "--set")
CARD = ".json"
"""How the path of a machine's card or bundle ends."""


def begin(results: Path, tier: Tier, fresh: bool = False) -> Run:
    """Open the store, a database of results, and begin a run, or resume the last one.

    A run is the part of the store with the rows of one machine, revision of the code and tier. If the machine is not
    quiet, or a CPU quota limits this process, a line on standard error says so.
    """
    store = Store.open(store_path(results))
    machine = this_machine.describe()
    for line in (quota_warning(), machine.noise.warning() if machine.noise else ""):
        if line:
            print(line, file=sys.stderr)
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
        item = workloads.with_batch_size(item, batch_size, OptionName("batch_size"))
    check_learner(item, item.training.batch_size)
    return item


def check_platform(name: str, option: OptionName = _PLATFORM) -> None:
    """Raise UserError unless a platform has this name, or it is the path of a TOML file, or of a machine's card."""
    if name not in platforms.names() and not name.endswith((".toml", CARD)):
        offered = f"{', '.join(roofline.platforms())}, or a path that ends in .toml or {CARD}"
        raise UserError(COMMAND_LINE, option, name, offered)


def asked_precisions(names: Sequence[str] | None, device: str | None = None) -> tuple[str, ...]:
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
            raise UserError(COMMAND_LINE, _PRECISIONS, name or "nothing", ", ".join(NAMES))
    precisions = tuple(name for name in OTHER_PRECISIONS if name in (names or ()))
    if precisions and device is not None:
        allowed = (FLOAT_32, " with ", _DEVICE, f" {device}")
        raise UserError(COMMAND_LINE, _PRECISIONS, ", ".join(precisions), allowed)
    return precisions


def held(run: Run, *cells: Cell) -> Sequence[Row]:
    """Return the rows of the last of some cells (units of work); those that are due are measured first.

    Args:
        cells: each follows those whose rows it needs.
    """
    for cell in cells:
        if cell.due(run):
            with bar(cell.key) as report, recorded(run):
                execution.measure_now(run, cell, report)
    return cells[-1].rows(run)


def profiled(run: Run, item: workloads.Workload, tier: Tier, precisions: Sequence[str] = ()) -> Sequence[Row]:
    """Return the times of a workload's primitives on every backend; measured first if the run lacks them."""
    batch_size = item.training.batch_size
    rows = held(run, cell_kinds.profile_cell(item, batch_size, tier, precisions))
    if precisions:
        return rows
    return run.measurements(suite=Suite.PROFILE, workload=item.name, batch_size=batch_size)


def simulated(run: Run, item: workloads.Workload, device: str) -> Sequence[Row]:
    """Return the times of a workload's primitives on a simulated device; simulate them first if they are not stored."""
    rows = held(run, cell_kinds.simulated_cell(item, item.training.batch_size, device))
    return [row for row in rows if row.suite == simulated_profile.SUITE]


def predicted(
    run: Run,
    item: workloads.Workload,
    tier: Tier,
    precisions: Sequence[str] = (),
    device: str | None = None,
) -> list[PredictedRate]:
    """Return the throughputs that are predicted for a workload on this machine, from times of its primitives.

    Each mapping strategy assigns the parts of a training to devices, and predicts the throughput of the assignments.
    Times that are not stored yet are measured or simulated first.

    Args:
        device: name of a simulated device that is added to this machine, such as "fpga:u200"; None: none is.
    """
    batch_size = item.training.batch_size
    cells = [cell_kinds.profile_cell(item, batch_size, tier, precisions)]
    if device is None:
        cells += [cell_kinds.prediction_cell(item, batch_size, precisions)]
    else:
        cells += [
            cell_kinds.simulated_cell(item, batch_size, device),
            cell_kinds.simulated_prediction_cell(item, batch_size, device),
        ]
    rows = held(run, *cells)  # which may have been made when the machine was quiet
    return [under_load.beside_others(row) for row in rows if isinstance(row, PredictedRate)]


def _with_changes(
    run: Run,
    item: workloads.Workload,
    tier: Tier,
    precisions: Sequence[str],
    device: str | None,
    changes: Sequence[str],
) -> list[PredictedRate]:
    """Return what `predicted` would be for this machine with other numbers."""
    host = platforms.of_this_machine()
    host = what_if.changed(host if device is None else simulated_profile.with_device(host, device), changes)
    timed = [row for row in profiled(run, item, tier, precisions) if isinstance(row, PieceTime)]
    counted = simulated(run, item, device) if device is not None else ()
    timed += [row for row in counted if isinstance(row, PieceTime) and row.device == device]

    def rows(times: Sequence[PieceTime]) -> list[PredictedRate]:
        return predict.with_slow_links(item, item.training.batch_size, times, host)

    if device is None:
        return [under_load.beside_others(row, cpu_quota().share) for row in rows(timed)]
    return under_load.beside_added(rows, timed, {device})


@dataclass(frozen=True)
class Predictions:
    """The predicted throughputs of one workload and batch size.

    Attributes:
        workload: the workload, with the batch size that was asked for.
        inputs: times of its primitives that are modelled, predicted from a card, or were measured on another machine;
            empty for this machine, whose times are rows of suite `profile`.
        rows: predictions of every strategy, of suite `prediction`.
        elsewhere: predictions for the same workload at other batch sizes, where there are any.
        modelled: the platform whose times were modelled from its numbers; None for this machine, and for a card's.
    """

    workload: workloads.Workload
    inputs: list[PieceTime]
    rows: list[PredictedRate]
    elsewhere: list[PredictedRate]
    modelled: platforms.PlatformFile | None = None


def predictions(  # noqa: PLR0913 (the options of a command)
    name: str,
    batch_size: int | None = None,
    *,
    platform: str = platforms.THIS_MACHINE,
    device: str | None = None,
    precisions: Sequence[str] = (),
    tier: str = "quick",
    results: Path = RESULTS,
    other_sizes: bool = True,
    changes: Sequence[str] = (),
    known: Sequence[Path] = (),
) -> Predictions:
    """Return the predictions of every strategy for a workload. The arguments are the options of `placerl map`.

    Args:
        platform: a platform's name, the path of its TOML file (.toml), or that of a machine's card or bundle (.json).
        device: name of a device that is added to this machine: a simulated one, such as "fpga:u200", or a GPU that
            another machine was measured with (`harness.profile.lent`), such as "h200", to which the simulated
            FPGA is added too. None: none is.
        other_sizes: whether another platform's times are modelled at other batch sizes, too.
        changes: numbers of the platform to change, such as "link.cpu-gpu.gb_s=32" (`platforms.what_if`); nothing that
            follows from them is stored.
        known: bundles of machines from which a card's times are predicted, next to the committed ones.

    Raises:
        UserError: there is no such workload, platform, device, precision or tier, two of them exclude each other, or
            the platform lacks a number that a prediction needs.
    """
    item, time_to_spend = loaded(name, batch_size), tiers.tier(tier)
    size = item.training.batch_size
    others = asked_precisions(precisions, device)
    if others and platform != platforms.THIS_MACHINE:
        allowed = (FLOAT_32, " with another ", _PLATFORM, ", whose times are modelled")
        raise UserError(COMMAND_LINE, _PRECISIONS, ", ".join(others), allowed)
    inputs: list[PieceTime] = []
    elsewhere: list[PredictedRate] = []
    gpu = None
    if device is not None:
        if device in lent.devices():
            gpu = lent.measured(device, item.name, size)
        else:
            simulated_profile.checked_device(device, lent.devices())
        if platform != platforms.THIS_MACHINE:
            raise UserError(COMMAND_LINE, _DEVICE, device, ("none with another ", _PLATFORM))
    if known and not platform.endswith(CARD):
        given = ", ".join(map(str, known))
        raise UserError(COMMAND_LINE, _KNOWN, given, ("none without the card of a machine as ", _PLATFORM))
    if platform.endswith(CARD):
        if changes:
            refused = ("none with a card as ", _PLATFORM, ", whose times are predicted")
            raise UserError(COMMAND_LINE, _CHANGES, ", ".join(changes), refused)
        from placerl.harness.machines import absent_machine  # loads SciPy, which nothing else here needs

        return Predictions(item, *absent_machine.predictions(item, Path(platform), known, other_sizes))
    if platform == platforms.THIS_MACHINE:
        with closing(begin(results, time_to_spend)) as run:
            if gpu is not None:
                own = [*profiled(run, item, time_to_spend), *simulated(run, item, lent.BOARD)]
                timed = [row for row in own if isinstance(row, PieceTime)]
                inputs = gpu.rows(item.name, size)
                with_gpu = partial(
                    lent.predictions, item, size, gpu=gpu, host=platforms.of_this_machine(), changes=changes
                )
                rows = under_load.beside_added(with_gpu, timed, {lent.BOARD, gpu.location})
                return Predictions(item, inputs, rows, elsewhere)
            if changes:
                rows = _with_changes(run, item, time_to_spend, others, device, changes)
                return Predictions(item, inputs, rows, elsewhere)
            rows = predicted(run, item, time_to_spend, others, device)
            if device is None and not others:
                elsewhere = run.rows(PredictedRate, suite=Suite.PREDICTION, workload=item.name)
    else:
        check_platform(platform)
        modelled, assumed = overheads.completed(what_if.changed(platforms.load(platform), changes))
        inputs, rows = absent_platforms.predictions(item, size, modelled)
        for other in set(item.training.batch_sizes) - {size} if other_sizes else ():
            with suppress(UserError):  # a platform of published tables has some batch sizes alone
                elsewhere += absent_platforms.predictions(item, other, modelled)[1]
        lacking = dict.fromkeys(
            f"{modelled.name}: {row.primitive} on {row.device}: not run: {row.reason}"
            for row in inputs
            if row.reason
        )
        for line in (*assumed, *lacking):  # of a platform that could be modelled
            print(line, file=sys.stderr)
        return Predictions(item, inputs, rows, elsewhere, modelled)
    return Predictions(item, inputs, rows, elsewhere)
