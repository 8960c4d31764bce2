"""Checks which device determines throughput at small batches, and which at large ones (PRL 6.3, Fig. 8).

A device assignment names the device of the learner and that of replay management.
"""

from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.core.provenance import Provenance, weakest
from harness.core.suites import Suite
from harness.mapping import Target
from harness.mapping.assignments import CPU, OPENCL, Assignment
from harness.papers import charts
from harness.papers.base import Finding, Outcome, by_a_model
from harness.papers.charts import Panel
from harness.papers.evidence import detail, mapping_of, number, records
from harness.papers.gains_rule import interval
from harness.papers.number import Number, from_text, ratio
from primitives.fpga.devices import catalogue

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEEDS_MAPPINGS = "every mapping run at a small and a large batch size (`placerl validate`)"
SECOND_DEVICE = "a CUDA device, or an OpenCL device that is not this CPU"
VALIDATE = ("placerl validate --tier quick", "placerl report")


def tried_mappings(frame: pd.DataFrame) -> dict[tuple[str, int], dict[Assignment, Any]]:
    """Return the measurement of the fastest mapping under each device assignment, in trainings with the fused loop.

    A mapping says on which backends learner, replay management and storage run; a device assignment names only the
    devices of learner and replay management. In rows of earlier versions, which have no assignment, OpenCL counts as
    the CPU.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them, including failed ones.

    Returns:
        Rows by (workload, batch size), and then by assignment; a failed row if all mappings of the assignment failed.
    """
    rows = frame[(frame["suite"] == Suite.VALIDATION) & (frame["quantity"] == "gradient_steps_per_s")]
    found: dict[tuple[str, int], dict[Assignment, Any]] = {}
    for row in records(rows[(rows["backend"] == "placerl") & ~(rows["value"] < 0)]):
        if detail(row, "loop") not in (None, "fused"):
            continue
        place = found.setdefault((row.workload, int(row.batch_size)), {})
        choice = _assignment(row)
        if choice not in place or pd.isna(place[choice].value) or row.value > place[choice].value:
            place[choice] = row
    return found


def _assignment(row: Any) -> Assignment:
    if stated := detail(row, "assignment"):
        return Assignment.parse(stated)
    learner, replay, _ = mapping_of(row).split("-")
    kinds = (Target.parse(each).device.partition(":")[0] for each in (learner, replay))
    return Assignment(*(CPU if kind == OPENCL else kind for kind in kinds))


def _reached(frame: pd.DataFrame) -> dict[tuple[str, int], dict[Assignment, Number]]:
    """Return the throughput by (workload, batch size) and device assignment, of the fastest mapping that ran
    under it.
    """
    return {
        (workload, size): {
            choice: number(row, f"{workload}, batch size {size}, {mapping_of(row)}")
            for choice, row in tried.items()
            if pd.notna(row.value)
        }
        for (workload, size), tried in tried_mappings(frame).items()
    }


def _spread(reached: dict[Assignment, Number], axis: str, name: str) -> Number | None:
    """Return how much the device on one axis changes throughput: largest over smallest, with the best other
    device.
    """
    best: dict[str, Number] = {}
    for choice, n in reached.items():
        device = getattr(choice, axis)
        if device not in best or n.value > best[device].value:
            best[device] = n
    if len(best) < 2:
        return None
    ordered = sorted(best.values(), key=lambda n: n.value)
    return ratio(name, ordered[-1], ordered[0])


def composition(frame: pd.DataFrame) -> Finding:
    """Check PRL Fig. 8: the device of replay management decides at small batches, the learner's at large ones.

    The device of one of the two decides if choosing it changes throughput more than choosing the device of the other.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    small, large = (n.value for n in from_text("PRL.small_batch", "PRL.large_batch"))
    reached = _reached(frame)
    ours: list[Number] = []
    decides: dict[str, list[bool | None]] = {"small": [], "large": []}
    for (workload, size), mappings in sorted(reached.items()):
        which = "small" if size <= small else "large" if size >= large else ""
        learner, replay = (
            _spread(mappings, axis, f"{workload}, batch size {size}: best over worst device of {what}")
            for axis, what in (("learner", "the learner"), ("replay", "replay management"))
        )
        if which and learner and replay:
            ours += [learner, replay]
            first, second = (replay, learner) if which == "small" else (learner, replay)
            decides[which].append(_more(first, second))
    if not all(decides.values()):
        return Finding(
            Outcome.NOT_RUN, tuple(ours), needs=f"{NEEDS_MAPPINGS}, on two devices: {SECOND_DEVICE}"
        )
    said = (
        f"Replay management decides in {decides['small'].count(True)} of {len(decides['small'])} workloads up to batch "
        f"size {small:g}, the learner in {decides['large'].count(True)} of {len(decides['large'])} from {large:g} on, "
        "each device with the fastest of its backends."
    )
    if any(n.provenance is not Provenance.MEASURED for n in ours):
        clock_mhz = catalogue.device("u200").clock_hz / 1e6
        said += f" The FPGA is simulated at {clock_mhz:g} MHz; at another clock it has to be run again."
    judged = [each for found in decides.values() for each in found]
    unknown = "The formula does not know what else the accelerator's units wait for."
    if all(n.provenance is Provenance.MODELLED for n in ours):
        return by_a_model(all(judged), tuple(ours), said, unknown=unknown)
    if False in judged:
        return Finding(Outcome.NOT_REPRODUCED, tuple(ours), said)
    if None in judged and any(n.provenance is Provenance.MODELLED for n in ours):
        said += f" Modelled rates refute nothing. {unknown}"
    return Finding(Outcome.NO_VERDICT if None in judged else Outcome.IN_KIND, tuple(ours), said)


def _more(one: Number, other: Number) -> bool | None:
    """Whether a number is above another with whole intervals; None if they overlap, or if a formula gives one of
    them.
    """
    (low, high), (other_low, other_high) = interval(one), interval(other)
    if weakest(one.provenance, other.provenance) is Provenance.MODELLED and high < other_low:
        return None
    return True if low > other_high else False if high < other_low else None


def draw(frame: pd.DataFrame) -> "Figure | None":
    """Draw the training throughput over the batch size, one line per device assignment.

    A device assignment names the device of the learner and that of replay management. Its line shows the fastest
    mapping (backends and place of the storage).

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    small, large = (n.value for n in from_text("PRL.small_batch", "PRL.large_batch"))
    by_workload: dict[str, dict[Assignment, list[tuple[int, Number]]]] = {}
    for (workload, size), found in sorted(_reached(frame).items()):
        for choice, reached in found.items():
            by_workload.setdefault(workload, {}).setdefault(choice, []).append((size, reached))
    return charts.chart(
        *(
            Panel(
                "batch size",
                "gradient steps (1/s)",
                [charts.line(f"learner and replay on {choice}", points) for choice, points in found.items()],
                workload,
                log_x=True,
                log_y=True,
                published_x=[
                    ("the replay's device decides up to (published)", small),
                    ("the learner's from (published)", large),
                ],
            )
            for workload, found in by_workload.items()
        )
    )
