"""The FPGA's rows of the primitive table: cycles counted by simulating the RTL, at a stated clock.

They are rows of suite `simulated_profile`, beside the ones that were timed on this machine (`profile`): no strategy
chooses a device that is not there unless it is asked to.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, log

import numpy as np

from harness import platform_model, predicting, roofs
from harness.cases.learners import created, expect_td_errors, expected_td_errors, random_batch
from harness.cases.trees import tree_cases
from harness.cases.work import Work, step_work
from harness.errors import UserError
from harness.mapping import Target
from harness.measurement import Measurement
from harness.platform_model import Link, Number, Platform
from harness.progress import Report
from harness.provenance import Provenance
from harness.workload import Workload
from primitives import learner, sum_tree
from primitives.learner.fpga_backend import DEFAULT_SIDE, FpgaExecutable
from primitives.learner.fpga_jobs import LANES
from primitives.learner.graph_learner import GraphLearner

SUITE = "simulated_profile"
PREDICTIONS = "simulated_prediction"


@dataclass(frozen=True)
class SimulatedDevice:
    """Where a device's clock is stated.

    Attributes:
        platform: a platform of `harness.platform_model`.
        key: the device's key there.
        note: why that clock.
    """

    platform: str
    key: str
    note: str


DEVICES = {
    "fpga:u200": SimulatedDevice(
        "ppoaccel", "fpga", "MAP gives no clock for its U200; PPO's design is on one too"
    ),
    "fpga:u50": SimulatedDevice("fixar21", "fpga", "FIX's design"),
}


def checked_device(name: str) -> str:
    """A key of `DEVICES`.

    Raises:
        UserError: it is none, or the hardware cannot be simulated here.
    """
    if name not in DEVICES:
        raise UserError("command line", "--device", repr(name), ", ".join(DEVICES))
    for status in (*learner.backends(), *sum_tree.backends()):
        if status.name == "fpga" and not status.available:
            raise UserError("command line", "--device", f"{name!r}: {status.reason}", "what is available")
    return name


def clock(device: str) -> Number:
    """The clock of a device of `DEVICES`, MHz, with its source."""
    stated = platform_model.load(DEVICES[device].platform).find(DEVICES[device].key).clock_mhz
    assert stated is not None, f"platform {DEVICES[device].platform} states no clock"
    return stated


def with_device(host: Platform, device: str) -> Platform:
    """A platform with a simulated device and its link added, as the device's own platform states them."""
    stated = platform_model.load(DEVICES[device].platform)
    made = stated.find(DEVICES[device].key).model_copy(update={"key": device})
    link = Link(between=("cpu", device), gb_s=_speed(stated, DEVICES[device].key))
    return host.model_copy(update={"device": (*host.device, made), "link": (*host.link, link)})


def _speed(platform: Platform, key: str) -> Number | None:
    try:
        return platform.link_gb_s("cpu", key)
    except KeyError:
        return None


def predictions(
    workload: Workload, batch_size: int, rows: Sequence[Measurement], device: str
) -> list[Measurement]:
    """The predictions of every strategy for this machine with a simulated device.

    Args:
        rows: the primitive table: rows of suite `profile`, and of `SUITE` for the device.

    Returns:
        Rows of suite `PREDICTIONS`; otherwise as `predicting.measurements`.
    """
    platform = with_device(platform_model.this_machine(), device)
    found = predicting.measurements(workload, batch_size, rows, platform)
    return [replace(row, suite=PREDICTIONS, details={**row.details, "device": device}) for row in found]


def profile(workload: Workload, batch_size: int, device: str, report: Report) -> list[Measurement]:
    """The rows of one workload on one simulated device.

    Args:
        workload: gives the sizes.
        batch_size: items in a call of a batched primitive.
        device: a key of `DEVICES`.
        report: called with the progress.

    Returns:
        Rows in seconds a call; what fails its check raises, and is stored as a failed cell.
    """
    rows = []
    if workload.replay.prioritized and workload.algorithm.name != "ppo":
        report(0, 2, f"replay on {device}")
        rows += _tree_rows(workload, batch_size, device)
    report(1, 2, f"learner on {device}")
    rows.append(_learner_row(workload, batch_size, device))
    report(2, 2, "done")
    return [*rows, *_roof_rows(workload, device)]


def _roof_rows(workload: Workload, device: str) -> list[Measurement]:
    """What the units can do at most: products of the systolic core, words of its streams, a request a cycle."""
    stated = clock(device)
    side, lanes = DEFAULT_SIDE, LANES
    node_words = workload.replay.fanout * ceil(log(workload.replay.capacity, workload.replay.fanout))
    stated_roofs = (
        (
            "learner",
            "peak",
            "FLOP/s",
            2 * side**2,
            f"2 operations of each of {side} x {side} elements a cycle",
        ),
        (
            "learner",
            "copy_bandwidth",
            "B/s",
            2 * 4 * lanes,
            f"{lanes} words read and {lanes} written a cycle",
        ),
        ("sum_tree", "peak", "FLOP/s", node_words, "the children of a node a level a cycle"),
        ("sum_tree", "copy_bandwidth", "B/s", 4 * node_words, "the children of a node a level a cycle"),
    )
    return [
        Measurement(
            suite=roofs.SUITE,
            workload=workload.name,
            primitive=quantity,
            backend="fpga",
            device=device,
            quantity=quantity,
            unit=unit,
            provenance=Provenance.MODELLED,
            value=per_cycle * stated.value * 1e6,
            details={
                "primitives": primitives,
                "how": how,
                "clock_mhz": stated.value,
                "clock_source": stated.source,
            },
        )
        for primitives, quantity, unit, per_cycle, how in stated_roofs
    ]


def _tree_rows(workload: Workload, batch_size: int, device: str) -> list[Measurement]:
    rows = []
    for item in tree_cases(workload, batch_size, Target.parse(device)):
        tree = item.case.setup()
        item.case.check(tree)
        item.case.call(tree, item.case.inputs(tree, np.random.default_rng(3)))
        assert item.work is not None
        rows.append(
            _row(workload, batch_size, device, item.primitive, tree.last_call_cycles, item.work(), {})
        )
    return rows


def _learner_row(workload: Workload, batch_size: int, device: str) -> Measurement:
    target = Target.parse(device)
    made = created(workload, batch_size, target)
    assert isinstance(made, GraphLearner)
    assert isinstance(made.executable, FpgaExecutable)
    batch = random_batch(workload, batch_size, np.random.default_rng(4))
    expected = expected_td_errors(workload, made, batch)
    expect_td_errors(made.step(batch).td_errors, expected)
    variant = made.algorithm.variants[0]
    nodes = made.executable.node_cycles(variant)
    units = {
        unit: sum(node.cycles for node in nodes if node.unit == unit)
        for unit in ("core", "stream", "reduction", "layout")
    }
    work, cycles = step_work(workload, batch_size), sum(units.values())
    return _row(workload, batch_size, device, "learner.step", cycles, work, {"unit_cycles": units})


def _row(
    workload: Workload,
    batch_size: int,
    device: str,
    primitive: str,
    cycles: int,
    work: Work,
    details: dict[str, object],
) -> Measurement:
    stated = clock(device)
    return Measurement(
        suite=SUITE,
        workload=workload.name,
        primitive=primitive,
        backend="fpga",
        device=device,
        batch_size=batch_size,
        quantity="time_per_call",
        unit="s",
        provenance=Provenance.SIMULATED,
        value=cycles / (stated.value * 1e6),
        details={
            "target": device,
            "items_per_call": batch_size,
            "cycles": cycles,
            "work": asdict(work),
            "clock_mhz": stated.value,
            "clock_provenance": str(stated.provenance),
            "clock_source": f"{stated.source}. {DEVICES[device].note}",
            **details,
        },
    )
