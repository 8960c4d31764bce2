"""The FPGA's rows of the primitive table: cycles that simulations of the RTL counted, at a stated clock frequency.

The rows have suite `simulated_profile`, separate from the rows timed on this machine (`profile`), so that strategies
consider a simulated device only on request. A row gives the cycles, the paper's formula for them
(`formula_cycles`, modelled), the difference by reason, and the clock frequency. The frequency is an assumption: the
papers' designs ran at it, but this design was not placed on the device.

There are two learners. `learner.step` runs on one systolic core (PPO), which executes any step graph; it is
`modelled`, because its stream and reduction units count words by a formula. `learner.pipeline_step` is MAP's own
design, for the algorithms that MAP uses it for. A mapping uses the faster of the two (`fpga_backend.design_of`), whose
row states so (`mapped`); predictions take its time (`predict.used_times`).

`learner.pipeline_step in N streams` is a step on N of MAP's pipelines, each with its part of the batch, for every N
that fits the device: PRL's composer searches for the fastest number (PRL 5.1), as it does with the command queues of
an OpenCL learner. `learner.pipeline_step` has the N that is fastest by MAP's formula.

There are two replay managers: `sum_tree.sample` and so on have one sub-tree, and those of `BANKED` as many as MAP's
exploration chooses. Mappings use the latter.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from placerl.harness import platforms
from placerl.harness.core.errors import COMMAND_LINE, OptionName, UserError
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import Target, predict
from placerl.harness.pieces.base import options_of
from placerl.harness.pieces.learners import expect_td_errors, expected_td_errors, random_batch
from placerl.harness.pieces.trees import tree_cases
from placerl.harness.pieces.work import Work, step_work
from placerl.harness.platforms import PlatformFile, SourcedNumber
from placerl.harness.profile import machine_peaks
from placerl.harness.profile.simulated_devices import DEVICES
from placerl.harness.runtime.simulated_parts import explored_tree
from placerl.harness.store.rows import MachinePeak, PieceTime, PredictedRate
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives import learner, sum_tree
from placerl.primitives.fpga.cycles import replay as replay_cycles
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.learner.fpga import LANES, fpga_backend, pipeline, pipeline_resources
from placerl.primitives.learner.fpga.fpga_backend import DEFAULT_SIDE, MODELLED_UNITS, FpgaExecutable
from placerl.primitives.learner.graph_learner import GraphLearner
from placerl.primitives.sum_tree import fpga_backend as sum_tree_backend
from placerl.primitives.sum_tree.levels import levels_of

SUITE = Suite.SIMULATED_PROFILE
PREDICTIONS = Suite.SIMULATED_PREDICTION
PIPELINE = "learner.pipeline_step"
IN_PIPELINES = re.compile(rf"{re.escape(PIPELINE)} in (?P<streams>\d+) streams")
"""Names of the gradient steps on a given number of MAP's pipelines."""
BANKED = {f"sum_tree.{call}": f"sum_tree.banked_{call}" for call in ("sample", "update", "insert")}
"""The names of replay operations on as many sub-trees as MAP's exploration chooses, by those on one."""
DRAWS = 9
"""Batches of each operation on several sub-trees, of which the one with the median cycles is stored."""
REPLAY_FORMULA = "B / S (MAP VI-A2, of updates)"
"""What the cycles of all replay operations are compared with: here a node is read in one cycle, also by a sample, for
which MAP has B / S x F."""
CELL = str(SUITE)
"""Prefix of the keys of the cells (units of work in a run) that make these rows; claims select them by it."""


def checked_device(name: str, others: Sequence[str] = ()) -> str:
    """Check that a name is a key of `DEVICES`, such as "fpga:u200", and return it.

    Args:
        others: further names that are allowed where it is asked for, for the message.

    Raises:
        UserError: it is not a key, or the hardware's description is missing here.
    """
    if name not in DEVICES:
        raise UserError(COMMAND_LINE, OptionName("device"), repr(name), ", ".join((*DEVICES, *others)))
    for status in (*learner.backends(), *sum_tree.backends()):
        if status.name == "fpga" and not status.available:
            raise UserError(
                COMMAND_LINE, OptionName("device"), f"{name!r}: {status.reason}", "what is available"
            )
    return name


def cell_key(workload: str, batch_size: int, device: str) -> str:
    """Return the key of a cell, the unit of work that profiles a workload at one batch size on a simulated device."""
    return f"{CELL}/{workload}/{batch_size}/{device}"


def clock(device: str) -> SourcedNumber:
    """Return the clock frequency of a device of `DEVICES`, MHz, with its source."""
    stated = platforms.load(DEVICES[device].platform).find(DEVICES[device].key).clock_mhz
    assert stated is not None, f"platform {DEVICES[device].platform} states no clock"
    return stated


def with_device(host: PlatformFile, device: str) -> PlatformFile:
    """Return a platform to which a simulated device and its link to the CPU are added.

    Args:
        device: a key of `DEVICES`; the platform named there states the device's numbers and its link.
    """
    stated = DEVICES[device]
    return host.with_device(platforms.load(stated.platform), stated.key, device)


def predictions(
    workload: Workload, batch_size: int, rows: Sequence[PieceTime], device: str
) -> list[PredictedRate]:
    """Return the predictions of every strategy for this machine with a simulated device.

    Args:
        rows: the times of the primitives: rows of suite `profile` for this machine, and of `SUITE` for the device.

    Returns:
        The rows of `predict.with_slow_links`, with suite `PREDICTIONS` and the simulated device.
    """
    platform = with_device(platforms.of_this_machine(), device)
    predicted = predict.with_slow_links(workload, batch_size, rows, platform)
    return [replace(row, suite=PREDICTIONS, simulated_device=device) for row in predicted]


def profile(
    workload: Workload, batch_size: int, device: str, report: Report
) -> Sequence[PieceTime | MachinePeak]:
    """Return the rows of one workload on one simulated device.

    The cycles come from the committed table, or from simulations where these are asked for (`cycles.timed_block`).

    Args:
        device: a key of `DEVICES`, such as "fpga:u200".

    Returns:
        Rows in seconds per call. A failed check raises an exception, which is stored as a failed cell. If the
        hardware's description is missing, the rows are not run and name what is missing.
    """
    if missing := fpga_backend.unavailable_reason():
        return [_not_run(workload, batch_size, device, name, missing) for name in ("learner.step", PIPELINE)]
    rows: list[PieceTime] = []
    if workload.replay.prioritized and workload.algorithm.name != "ppo":
        report(0, 3, f"replay on {device}")
        rows += [
            *_tree_rows(workload, batch_size, device),
            *banked_replay(workload, batch_size, device),
        ]
    report(1, 3, f"learner on {device}, systolic core")
    rows.append(_learner_row(workload, batch_size, device))
    report(2, 3, f"learner on {device}, pipeline")
    rows += [_pipeline_row(workload, batch_size, device), *pipelined_rows(workload, batch_size, device)]
    report(3, 3, "done")
    return [*rows, *_peak_rows(workload, device)]


def replay(workload: Workload, batch_size: int, device: str) -> list[PieceTime]:
    """Profile only the replay of a workload on a simulated device, and return its rows, in seconds per call."""
    if missing := sum_tree_backend.unavailable_reason():
        return [_not_run(workload, batch_size, device, "sum_tree.sample", missing)]
    return [*_tree_rows(workload, batch_size, device), *banked_replay(workload, batch_size, device)]


def banked_replay(workload: Workload, batch_size: int, device: str) -> list[PieceTime]:
    """Profile the replay of a workload with as many sub-trees (S) as MAP's exploration chooses for a simulated device.

    Returns:
        Rows for sampling, updating and inserting one item, with the names of `BANKED`, in seconds per call. Their
        requests are drawn, because the cycles depend on how they are divided among the sub-trees; the same seed draws
        the same. The cycles are the median of `DRAWS` batches.
    """
    if missing := sum_tree_backend.unavailable_reason():
        return [_not_run(workload, batch_size, device, name, missing) for name in BANKED.values()]
    from placerl.primitives.fpga.cycles.difference_table import CycleDifference, replay_difference

    target, size = Target.parse(device), workload.replay
    design = explored_tree(target, size.capacity, size.fanout, batch_size)
    rng = np.random.default_rng(3)
    cases = {item.primitive: item for item in tree_cases(workload, batch_size, target, design.banks)}
    for item in cases.values():
        item.case.check(item.case.setup())
    drawn: dict[str, list[CycleDifference]] = {name: [] for name in BANKED}
    for _ in range(DRAWS):
        for name, call in (
            ("sum_tree.update", "update"),
            ("sum_tree.sample", "sample"),  # a check ends with reads: each batch is of another kind
            ("sum_tree.insert", "update"),
        ):
            tree, items = cases[name].case.setup(), cases[name].batch_size
            if name == "sum_tree.update" and drawn[name]:
                tree.get(np.zeros(1, np.int64))  # reads, after the insertion
            drawn[name].append(replay_difference(tree, "wide", call, items, rng))
    rows = []
    for name, all_of_them in drawn.items():
        middle = sorted(all_of_them, key=lambda one: one.simulated_cycles)[DRAWS // 2]
        work = cases[name].work
        assert work is not None
        columns = _compared(middle.simulated_cycles, middle.formula_cycles, REPLAY_FORMULA, middle.reasons)
        columns |= {"banks": design.banks, "banks_bound_by": design.bound_by, "draws": DRAWS, "mapped": True}
        columns["items_per_call"] = cases[name].batch_size  # an insertion is of one leaf
        rows.append(
            _row(workload, batch_size, device, BANKED[name], middle.simulated_cycles, work(), columns)
        )
    return rows


def _peak_rows(workload: Workload, device: str) -> list[MachinePeak]:
    """Return the units' peak rates: the systolic core's products and streams, a pipeline of all DSPs, one node
    per cycle.

    A request of the replay reads a node at each level while the sums of another request are written: one node per
    level, and the leaf.
    """
    stated = clock(device)
    side, lanes = DEFAULT_SIDE, LANES
    board = catalogue.device(Target.parse(device).location)
    multipliers = pipeline_resources.available(board).dsps // pipeline_resources.MULTIPLIER_DSPS
    levels = levels_of(workload.replay.capacity, workload.replay.fanout)
    node_words = workload.replay.fanout * levels
    stated_peaks = (
        (
            "learner.step",
            "peak",
            2 * side**2,
            f"2 operations of each of {side} x {side} elements a cycle",
        ),
        (
            "learner.step",
            "copy_bandwidth",
            2 * 4 * lanes,
            f"{lanes} words read and {lanes} written a cycle",
        ),
        (
            PIPELINE,
            "peak",
            2 * multipliers,
            f"2 operations of each of {multipliers} multipliers a cycle",
        ),
        (PIPELINE, "copy_bandwidth", 4 * multipliers, "a word read for each multiplier a cycle"),
        ("sum_tree", "peak", node_words, "the children of a node a level a cycle"),
        (
            "sum_tree",
            "copy_bandwidth",
            4 * (node_words + levels + 1),
            "the children of a node a level read and a word of each, and the leaf, written a cycle",
        ),
    )
    return [
        MachinePeak(
            suite=machine_peaks.SUITE,
            workload=workload.name,
            primitive=quantity,
            backend="fpga",
            device=device,
            quantity=quantity,
            provenance=Provenance.MODELLED,
            value=per_cycle * stated.value * 1e6,
            primitives=primitives,
            how=how,
            clock_mhz=stated.value,
            clock_source=stated.source,
        )
        for primitives, quantity, per_cycle, how in stated_peaks
    ]


def _tree_rows(workload: Workload, batch_size: int, device: str) -> list[PieceTime]:
    rows = []
    for item in tree_cases(workload, batch_size, Target.parse(device)):
        tree = item.case.setup()
        item.case.check(tree)
        item.case.call(tree, item.case.inputs(tree, np.random.default_rng(3)))
        assert item.work is not None
        # A node is read in one cycle, so samples take the cycles that MAP states for updates: B / S.
        formula = replay_cycles.map_update_cycles(item.batch_size, banks=tree.banks)
        timing = replay_cycles.level_timing(fanout=tree.fanout, narrow=False, samples=False)
        terms = replay_cycles.difference_terms(
            tree.last_call_cycles, [item.batch_size], levels=tree.levels, timing=timing
        )
        columns = _compared(tree.last_call_cycles, round(formula), REPLAY_FORMULA, terms)
        columns["items_per_call"] = item.batch_size  # an insertion is of one leaf
        rows.append(
            _row(workload, batch_size, device, item.primitive, tree.last_call_cycles, item.work(), columns)
        )
    return rows


def _compared(
    cycles: int, formula_cycles: float, formula: str, reasons: Mapping[str, float]
) -> dict[str, Any]:
    """Return the columns of a row that is compared with a formula."""
    named = {name: value for name, value in reasons.items() if value}
    return {
        "formula": formula,
        "formula_cycles": formula_cycles,
        "difference_cycles": cycles - formula_cycles,
        "difference_reasons": named,
    }


def _learner_row(workload: Workload, batch_size: int, device: str) -> PieceTime:
    target = Target.parse(device)
    options = options_of(target) | {"design": fpga_backend.CORE}
    trainee = learner.create(algorithm_of(workload), batch_size=batch_size, seed=0, **options)
    assert isinstance(trainee, GraphLearner)
    assert isinstance(trainee.executable, FpgaExecutable)
    batch = random_batch(workload, batch_size, np.random.default_rng(4))
    expected = expected_td_errors(workload, trainee, batch)
    expect_td_errors(trainee.step(batch).td_errors, expected)
    variant = trainee.algorithm.variants[0]
    nodes = trainee.executable.node_cycles(variant)
    units = {
        unit: sum(node.cycles for node in nodes if node.unit == unit)
        for unit in ("core", "stream", "reduction", "layout")
    }
    work, cycles = step_work(workload, batch_size), sum(units.values())
    row = _row(workload, batch_size, device, "learner.step", cycles, work, {"unit_cycles": units})
    by_formula = any(units.get(unit) for unit in MODELLED_UNITS)
    return replace(row, provenance=Provenance.MODELLED) if by_formula else row


def pipelined_rows(workload: Workload, batch_size: int, device: str) -> Iterator[PieceTime]:
    """Yield the rows of a gradient step on each number of MAP's pipelines, for an algorithm that they run.

    Yields:
        A row for each number of pipelines that fits the device. The first number that does not fit has a row that is
        not run, whose reason names the resources that are too few; larger numbers need more.
    """
    if pipeline.refusal(algorithm_of(workload)):
        return
    for count in pipeline.pipeline_counts(batch_size):
        row = _pipeline_row(workload, batch_size, device, count)
        yield row
        if row.value is None:
            return


def _pipeline_row(
    workload: Workload, batch_size: int, device: str, pipelines: int | None = None
) -> PieceTime:
    """Return the row of a gradient step on a number of MAP's pipelines; None: that which is fastest by its formula."""
    algorithm, board = algorithm_of(workload), catalogue.device(Target.parse(device).location)
    name = PIPELINE if pipelines is None else f"{PIPELINE} in {pipelines} streams"
    if reason := pipeline.refusal(algorithm):
        return _not_run(workload, batch_size, device, name, reason)
    try:
        pipeline.best_design(algorithm, batch_size, board, pipelines=pipelines)
    except ValueError as error:
        return _not_run(workload, batch_size, device, name, f"a larger device: {error}")
    step = pipeline.gradient_step(algorithm, batch_size, board, pipelines)
    design = step.design
    whole = pipeline.accelerator_cycles(design, batch_size, workload.replay.capacity, workload.replay.fanout)
    columns = {
        "accelerator_cycles": whole,
        **_compared(step.cycles, design.formula_cycles, "T_pipeline + T_WU (MAP VI-A2)", step.reasons),
        "pass_cycles": step.pass_cycles,
        "pipelines": design.pipelines,
        "samples_per_pipeline": design.samples,
        "lanes": {name: [layer.lanes for layer in layers] for name, layers in design.networks.items()},
        "resources": asdict(design.resources),
        "checked": "cycles, with their closed form; numbers by the tests of the pipeline's RTL",
        "mapped": fpga_backend.design_of(algorithm, batch_size, Target.parse(device).location)
        == fpga_backend.PIPELINE,
    }
    work = step_work(workload, batch_size)
    return _row(workload, batch_size, device, name, step.cycles, work, columns)


def _not_run(workload: Workload, batch_size: int, device: str, primitive: str, needs: str) -> PieceTime:
    return PieceTime(
        **_of(workload, batch_size, device, primitive), status="not_run", reason=f"needs {needs}"
    )


def _of(workload: Workload, batch_size: int, device: str, primitive: str) -> dict[str, Any]:
    """Return what every row of a primitive on a simulated device states."""
    return {
        "suite": SUITE,
        "workload": workload.name,
        "primitive": primitive,
        "backend": "fpga",
        "device": device,
        "target": device,
        "batch_size": batch_size,
        "quantity": "time_per_call",
        "provenance": Provenance.SIMULATED,
    }


def _row(
    workload: Workload,
    batch_size: int,
    device: str,
    primitive: str,
    cycles: int,
    work: Work,
    columns: Mapping[str, Any],
) -> PieceTime:
    stated = clock(device)
    shared = {
        "items_per_call": batch_size,
        "cycles": cycles,
        "work": asdict(work),
        "clock_mhz": stated.value,
        "clock_assumed": True,
        "clock_provenance": str(stated.provenance),
        "clock_source": f"{stated.source}. {DEVICES[device].note}",
    }
    value = cycles / (stated.value * 1e6)
    return PieceTime(**_of(workload, batch_size, device, primitive), value=value, **{**shared, **columns})
