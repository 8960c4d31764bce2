"""Runs MAP's Algorithm 2, the priority update, on a device as it is printed (MAP IV-D).

The experiment checks whether the tree that the algorithm leaves is right, and times the corrected algorithm next to
this project's update level by level.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.measure.protocol import Case, Protocol, measure
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.cells import GPU_TIER, experiment_cells
from placerl.harness.papers.evidence import Paired, number, paired, rows_of
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.papers.gains_rule import interval
from placerl.harness.papers.map.figure_12_threads import FANOUT
from placerl.harness.papers.map.printed_tree import Fixes, PrintedSumTree, device, device_names
from placerl.harness.papers.number import Number
from placerl.harness.papers.tree_layouts import check, priorities
from placerl.primitives.device import Device
from placerl.primitives.sum_tree import SumTree
from placerl.primitives.sum_tree.gpu.device_tree import DeviceSumTree


@dataclass(frozen=True)
class Updates(Columns):
    """Columns of an update's rows: its form and tree; of an error, its nodes, and whether indices were repeated."""

    form: str
    capacity: int
    fanout: int | None = None
    null: bool = False
    node: str | None = None
    repeated: bool | None = None


EXPERIMENT = Experiment(
    "Algorithm 2", "MAP's priority update with atomic additions", "time_per_call relative_error", Updates
)
TIERS = ("standard", "full", GPU_TIER)
NEEDS = (
    "the experiment MAP-A2: MAP's priority update on a CUDA or OpenCL device (claim/MAP-A2, tier standard)"
)
UPDATE = "sum_tree.update"
FORMS = {
    "as printed": Fixes.NONE,
    "with the sign reversed": Fixes.SIGN,
    "with the root updated": Fixes.ROOT,
    "with both": Fixes.SIGN | Fixes.ROOT,
    "with the sign and one exchange": Fixes.SIGN | Fixes.EXCHANGE,
    "with both and one exchange": Fixes.ALL,
}
PRINTED, CORRECTED = "as printed", "with both"
LEVELS, ATOMIC, ROOTLESS = "level by level", "with both and one exchange", "with the sign and one exchange"
"""The timed forms: this project's update, the corrected Algorithm 2, and the same without the root's additions."""
CAPACITY = 1_000_000
FANOUTS = (FANOUT, 16)
BATCH_SIZES = (256, 2048, 16384)
SMALL, SMALL_BATCH = 16384, 2048
"""Leaves and items where errors are measured: priorities 1 to 7 then have sums that a float32 holds exactly."""
RIGHT = 1e-6
"""Largest relative error at which a tree counts as right; its priorities are integers, whose sums are exact."""


def errors(
    tree: PrintedSumTree, indices: npt.NDArray[np.int64], rng: np.random.Generator
) -> tuple[float, float]:
    """Update a tree once and return the errors of its leaves and of its root.

    Args:
        indices: (B,) leaves to update, in [0, capacity).

    Returns:
        The error of the leaves and that of the root. The first is the largest distance of an updated leaf from the
        nearest priority that the batch gives it, divided by the largest priority. The second is the distance of the
        root from the sum of the leaves, divided by that sum's magnitude.
    """
    tree.fill(priorities(rng, tree.capacity))
    new = priorities(rng, len(indices))
    tree.update(indices, new)
    root, *_, leaves = (level.astype(np.float64) for level in tree.levels())
    distance = np.abs(leaves[indices] - new)
    nearest = np.full(tree.capacity, np.inf)
    np.minimum.at(nearest, indices, distance)
    held = float(leaves.sum())
    return float(nearest[indices].max() / new.max()), abs(float(root[0]) - held) / max(abs(held), 1.0)


def error_rows(name: str, opened: Device) -> Iterator[Row]:
    """Yield the errors of the leaves and of the root after one update, for each form of MAP's Algorithm 2.

    The forms are the algorithm as printed and with each combination of corrections (`FORMS`). Each is tried with a
    batch of distinct indices, and with one in which every index occurs eight times.
    """
    rng = np.random.default_rng(0)
    batches = {
        False: rng.permutation(SMALL)[:SMALL_BATCH],
        True: np.repeat(rng.permutation(SMALL)[: SMALL_BATCH // 8], 8),
    }
    for form, fixes in FORMS.items():
        tree = PrintedSumTree(SMALL, FANOUTS[0], opened, fixes)
        for repeated, indices in batches.items():
            for node, error in zip(("leaf", "root"), errors(tree, indices, rng), strict=True):
                yield EXPERIMENT.row(
                    Updates(form, SMALL, node=node, repeated=repeated),
                    primitive=UPDATE,
                    backend=PrintedSumTree.backend,
                    device=name,
                    batch_size=SMALL_BATCH,
                    quantity="relative_error",
                    provenance=Provenance.MEASURED,
                    value=error,
                )


@dataclass(frozen=True)
class Side:
    """One configuration that is timed: an update of a batch of priorities on a device.

    Attributes:
        device: name of the device, "cuda" or "opencl".
        form: form of the update: "level by level" (this project's), Algorithm 2 with all corrections, or the same
            without additions at the root.
        fanout: K, children of a node.
        batch_size: items per update.
        null: whether it is the second, identical copy of a configuration, which shows the noise (the A/A null).
    """

    device: str
    form: str
    fanout: int
    batch_size: int
    null: bool = False

    @property
    def name(self) -> str:
        """Return the name under which the configuration is timed, such as "cuda, level by level, K = 16, 256 items"."""
        null = " (null)" if self.null else ""
        return f"{self.device}, {self.form}, K = {self.fanout}, {self.batch_size} items{null}"


def sides(devices: tuple[str, ...]) -> list[Side]:
    """Return the configurations to time: three forms of the update for each device, fanout and batch size.

    The update level by level occurs twice; its second copy shows the noise.
    """
    return [
        Side(name, form, fanout, size, null)
        for name in devices
        for fanout in FANOUTS
        for size in BATCH_SIZES
        for form, null in ((LEVELS, False), (LEVELS, True), (ATOMIC, False), (ROOTLESS, False))
    ]


def cases(devices: tuple[str, ...], capacity: int) -> dict[Side, Case[SumTree]]:
    """Return the cases (what the timing protocol sets up, checks and calls) of all configurations to time.

    A call is an update from arrays on the host; it ends when the device has finished.
    """

    @cache
    def opened(name: str) -> Device:
        return device(name)

    @cache
    def tree(name: str, fanout: int, form: str) -> SumTree:
        filled = priorities(np.random.default_rng(0), capacity)
        if form == LEVELS:
            whole: SumTree = DeviceSumTree(capacity, fanout, np.float32, opened(name))
            whole.update(np.arange(capacity), filled)
            return whole
        patched = PrintedSumTree(capacity, fanout, opened(name), FORMS[form])
        patched.fill(filled)
        return patched

    def case(side: Side) -> Case[SumTree]:
        own = partial(tree, side.device, side.fanout, side.form)
        return Case(
            side.name,
            own,
            # Without the root's additions the total is wrong, as `relative_error` states.
            _nothing if side.form == ROOTLESS else check,
            lambda tree, rng: (rng.integers(0, capacity, side.batch_size), priorities(rng, side.batch_size)),
            lambda tree, x: tree.update(*x),
            synchronise=lambda: own().synchronise(),
        )

    return {side: case(side) for side in sides(devices)}


def _nothing(_: SumTree) -> None:
    """Check nothing."""


def measured(budget_s: float, report: Report, capacity: int = CAPACITY) -> Sequence[Row]:
    """Measure the errors that one update leaves, and the seconds per update, on every device of this machine.

    Returns:
        The errors of each form of the algorithm (`error_rows`), and the seconds of each configuration (`sides`), all
        timed in the same interleaved rounds. Without a device there is one measurement, which was not run.
    """
    devices = device_names()
    if not devices:
        return [
            EXPERIMENT.not_run(
                "no CUDA or OpenCL device",
                primitive=UPDATE,
                backend=PrintedSumTree.backend,
                quantity="time_per_call",
            )
        ]
    rows = [row for name in devices for row in error_rows(name, device(name))]
    timed = cases(devices, capacity)
    timings = measure(
        list(timed.values()),
        Protocol(budget_s=budget_s),
        progress=lambda done, total: report(done, total, EXPERIMENT),
    )
    for side, case in timed.items():
        rows.append(
            EXPERIMENT.timing(
                timings[case.name],
                Updates(side.form, capacity, side.fanout, side.null),
                primitive=UPDATE,
                backend=PrintedSumTree.backend,
                device=side.device,
                batch_size=side.batch_size,
            )
        )
    return rows


class _AtSize(NamedTuple):
    """What was found at one batch size on trees of one K.

    Attributes:
        gain: the gain of the level-by-level update over Algorithm 2.
        cost: the time of Algorithm 2 with the root's additions over that without them.
    """

    batch_size: int
    fanout: int
    gain: Paired
    cost: Paired


def _by_size(frame: pd.DataFrame, name: str) -> list[_AtSize]:
    """Return what was found on a device, by ascending batch size and K."""
    by_side: dict[tuple[int, int], dict[tuple[str, bool], object]] = {}
    for row in rows_of(frame, EXPERIMENT, "time_per_call", device=name):
        side = int(row.batch_size), row.parameters.fanout
        by_side.setdefault(side, {})[row.parameters.form, row.parameters.null] = row
    found = []
    for (size, fanout), rows in sorted(by_side.items()):
        if not {(LEVELS, False), (LEVELS, True), (ATOMIC, False), (ROOTLESS, False)} <= rows.keys():
            continue
        where = f"{name}, K = {fanout}, batch size {size}"
        ours, null, theirs = rows[LEVELS, False], rows[LEVELS, True], rows[ATOMIC, False]
        gain = paired(f"{where}: level by level over Algorithm 2", ours, null, theirs)
        cost = paired(f"{where}: time with over without the root", rows[ROOTLESS, False], None, theirs)
        found.append(_AtSize(size, fanout, gain, cost))
    return found


class _OfAlgorithm2(Claim):
    """What the claims on Algorithm 2 share."""

    measured_by = (experiment_cells("MAP-A2", measured, TIERS),)


class UpdateLeavesSumsRight(_OfAlgorithm2):
    """Checks MAP Algorithm 2: after an update the leaves hold their new priorities, and the root holds their sum."""

    key, place, position = "MAP-IV-D1", "IV-D1, Algorithm 2", 1
    statement = "The priority update leaves every updated priority, and every sum above it, right"
    needs = NEEDS

    def judge(self, frame: pd.DataFrame) -> Finding:
        errors_of: dict[tuple[str, bool], list[Number]] = {}
        for row in rows_of(frame, EXPERIMENT, "relative_error"):
            form, repeated = row.parameters.form, row.parameters.repeated
            node = row.parameters.node
            name = f"{row.device}, {form}: error of the {node}{'s' * (node == 'leaf')}"
            name = name.replace("leafs", "leaves") + (", repeated indices" if repeated else "")
            errors_of.setdefault((form, repeated), []).append(number(row, name))
        needed = {(form, repeated) for form in (PRINTED, CORRECTED, ATOMIC) for repeated in (False, True)}
        if not needed <= errors_of.keys():
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        ours = tuple(each for numbers in errors_of.values() for each in numbers)

        def is_right(form: str, repeated: bool) -> bool:
            return all(each.value <= RIGHT for each in errors_of[form, repeated])

        if not (is_right(ATOMIC, False) and is_right(ATOMIC, True)):
            explanation = (
                "With every correction the tree is wrong too, so that the device or this code is at fault."
            )
            return Finding(Outcome.NO_VERDICT, ours, explanation)
        if is_right(PRINTED, False) and is_right(PRINTED, True):
            return Finding(Outcome.REPRODUCED, ours, "As printed, one update leaves a right tree.")
        distinct, repeats = is_right(CORRECTED, False), is_right(CORRECTED, True)
        explanation = (
            "As printed, an update leaves a wrong tree: the change is the old priority minus the new one (line 5, "
            "whose operator the available copy has lost) and is added (line 8), and the loop ends before the root "
            "(line 6; a line after the loop may be lost). With both corrected, as the lost parts may have been, "
            f"distinct indices give {'a right tree' if distinct else 'a wrong tree'} and repeated "
            f"ones, which may read the same old priority, a {'right' if repeats else 'wrong'} one here; a leaf that is "
            "exchanged in one step is right in both."
        )
        # A reading in which the lost parts are right agrees; what is wrong without these, no reading explains.
        outcome = Outcome.CONSISTENT if distinct and repeats else Outcome.NOT_REPRODUCED
        return Finding(outcome, ours, explanation)


class RootAdditionsLimitUpdates(_OfAlgorithm2):
    """Checks MAP IV-D3: on a GPU, atomic additions at the root limit the priority update, and cannot be avoided.

    The update level by level has no atomic additions; for the statement to hold it must not be faster. It is judged at
    the largest batch, on trees of MAP's K: one of another K adds to fewer levels. The others are listed.
    """

    key, place, position = "MAP-IV-D3", "IV-D3", 2
    statement = "Atomic additions at the root limit a GPU's priority update, and cannot be avoided"
    needs = "a CUDA device"

    def judge(self, frame: pd.DataFrame) -> Finding:
        found = _by_size(frame, "cuda")
        of_map = [one for one in found if one.fanout == FANOUT]
        if not of_map:
            others = () if found else _numbers(_by_size(frame, "opencl"))
            said = "On the OpenCL device, which is no GPU here, the numbers stand in." if others else ""
            return Finding(Outcome.NOT_RUN, others, said, needs=self.needs)
        largest = of_map[-1]
        verdict = largest.gain.outcome.verdict
        words = {"faster": "faster than", "slower": "slower than"}.get(verdict, "not told apart from")
        low, high = interval(largest.cost.gain)
        share = 100 * (1 - 1 / low) if low > 1 else 0.0
        explanation = (
            f"At the largest batch, on trees of MAP's K = {FANOUT}, the update without atomic additions is {words} "
            f"Algorithm 2, and the root's additions take at least {share:.0f}% of its time."
        )
        if verdict == "faster" or high < 1:
            return Finding(Outcome.NOT_REPRODUCED, _numbers(found), explanation)
        if low > 1 and verdict == "slower":
            return Finding(Outcome.IN_KIND, _numbers(found), explanation)
        return Finding(Outcome.NO_VERDICT, _numbers(found), explanation)


def _numbers(found: Sequence[_AtSize]) -> tuple[Number, ...]:
    """Return all gains, and then all costs."""
    return (*(one.gain.gain for one in found), *(one.cost.gain for one in found))
