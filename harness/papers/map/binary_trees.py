"""Times a sum tree's operations with MAP's K on CPU and GPU (MAP VII-A, VII-C, Fig. 12).

MAP's trees have K = 2 in every experiment, and Hopper's workload has wider ones, which are faster here. So statements
about MAP's replay are judged on trees of its K alone. On the FPGA they are those of MAP-F12-linear, with S in
proportion to the batch as MAP scales it, whose cycles are seconds at the clock of the platform.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import Target
from placerl.harness.mapping.absent_platforms import as_in_map
from placerl.harness.measure import statistics
from placerl.harness.measure.conditions import default_core
from placerl.harness.measure.protocol import Protocol, measure
from placerl.harness.papers.cells import GPU_TIER, experiment_cells
from placerl.harness.papers.clocks import CLOCK
from placerl.harness.papers.evidence import select
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.papers.map.figure_12_linear import EXPERIMENT as ON_FPGA
from placerl.harness.papers.map.figure_12_threads import FANOUT
from placerl.harness.pieces.base import targets
from placerl.harness.pieces.trees import tree_cases
from placerl.harness.workloads import Workload
from placerl.primitives import sum_tree
from placerl.primitives.fpga.devices import catalogue


@dataclass(frozen=True)
class TimedTree(Columns):
    """Columns of the rows: K, children of a node."""

    fanout: int


EXPERIMENT = Experiment("MAP-F12-trees", "replay operations on trees of MAP's K", "time_per_call", TimedTree)
WORKLOAD = "hopper-ddpg"
CALLS = ("sum_tree.sample", "sum_tree.update")
BATCH_SIZES = (32, 256, 2048, 16384)
"""The batch sizes of Hopper in MAP Table V."""
BACKENDS = ("native", "cuda", "opencl")
"""The backends whose trees have K children a node; an OpenCL device only stands in for a CUDA device."""
TREES = f"trees of MAP's K = {FANOUT}"
NEEDS = f"the experiment MAP-F12-trees: {TREES} on a CUDA device and on one CPU thread, tier standard"
CLOCK_MHZ = catalogue.device("u200").clock_hz / 1e6
"""The assumed clock of the FPGA's cycles; MAP states none."""


def measured(budget_s: float, report: Report, item: Workload | None = None) -> Sequence[Row]:
    """Time sampling and updating of Hopper's tree with MAP's K, all in the same interleaved rounds.

    Args:
        item: the workload whose replay is timed; by default Hopper's with MAP's K.

    Returns:
        The seconds per call of each operation, batch size and backend. The CPU's calls use one thread.
    """
    item = item or as_in_map(WORKLOAD)
    on = [target for target in targets(sum_tree.backends(), "flat") if target.backend in BACKENDS]
    if Target("cuda") in on:
        on = [target for target in on if target != Target("opencl")]
    pieces = [
        replace(piece, case=replace(piece.case, name=f"{piece.case.name}, {size} items"))
        for target in on
        for size in BATCH_SIZES
        for piece in tree_cases(item, size, target)
        if piece.primitive in CALLS
    ]
    protocol = Protocol(
        budget_s=budget_s,
        fewest_rounds=statistics.FEWEST_SAMPLES,
        threads=1,
        lead_in_calls=1,
        caller_core=default_core(),
    )
    timings = measure(
        [piece.case for piece in pieces],
        protocol,
        progress=lambda done, total: report(done, total, EXPERIMENT),
    )
    return [
        EXPERIMENT.timing(
            timings[piece.case.name],
            TimedTree(item.replay.fanout),
            workload=item.name,
            primitive=piece.primitive,
            backend=piece.target.kind,
            device=piece.target.device,
            batch_size=piece.batch_size,
        )
        for piece in pieces
    ]


cells = experiment_cells("MAP-F12-trees", measured, ("standard", "full", GPU_TIER))


def with_clock(frame: pd.DataFrame) -> pd.DataFrame:
    """Return measurements in which the FPGA's cycles state the assumed clock, so that they are judged at two.

    Rows of MAP-F12-linear state none.
    """
    counted = frame["experiment"] == ON_FPGA
    stated = [
        {CLOCK: CLOCK_MHZ, **(given or {})} if mine else given
        for given, mine in zip(frame["parameters"], counted, strict=True)
    ]
    return frame.assign(parameters=pd.Series(stated, frame.index, dtype=object))


def times(frame: pd.DataFrame, call: str) -> pd.DataFrame:
    """Return the seconds per call of an operation on trees of MAP's K, on real devices and on the simulated FPGA.

    Args:
        call: one of `CALLS`.

    Returns:
        The rows of `frame` with these times, with a column `kind`: "cpu", "cuda", "opencl" or "fpga". Those of the
        FPGA have `banks`, `cycles` and `clock_mhz` in columns.
    """
    rows = select(frame, suite=Suite.CLAIM)
    rows = rows[(rows["experiment"] == EXPERIMENT) | (rows["experiment"] == ON_FPGA)]
    wanted: list[bool] = []
    columns: dict[str, list[float | None]] = {"value": [], "banks": [], "cycles": [], "clock_mhz": []}
    for experiment, primitive, stated, value in zip(
        rows["experiment"], rows["primitive"], rows["parameters"], rows["value"], strict=True
    ):
        given = stated or {}
        on_fpga = experiment == ON_FPGA
        operation = f"sum_tree.{given.get('call')}" if on_fpga else primitive
        wanted.append(operation == call and given.get("fanout") == FANOUT)
        clock_mhz = given.get(CLOCK, CLOCK_MHZ)
        columns["value"].append(value / (1e6 * clock_mhz) if on_fpga else value)
        for name, own in (("banks", given.get("banks")), ("cycles", value), ("clock_mhz", clock_mhz)):
            columns[name].append(own if on_fpga else None)
    series = {
        name: pd.Series(values, rows.index, dtype="float64" if name == "value" else object)
        for name, values in columns.items()
    }
    rows = rows.assign(kind=rows["device"].str.split(":").str[0], primitive=call, unit="s", **series)
    return rows[np.array(wanted, bool)]
