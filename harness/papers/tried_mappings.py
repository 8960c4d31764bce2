"""Selects, under each device assignment, the fastest mapping of the trainings that a validation ran.

A device assignment names the device of the learner and that of replay management.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from placerl.harness.core.suites import Suite
from placerl.harness.mapping import Target
from placerl.harness.mapping.assignments import CPU, OPENCL, Assignment
from placerl.harness.papers.device_table import COLUMNS, DeviceTable, Entry
from placerl.harness.papers.device_times import GPU
from placerl.harness.papers.evidence import mapping_of, number, races_lost, records

Tried = Mapping[tuple[str, int], Mapping[Assignment, Any]]
"""Measurements by workload and batch size, and then by device assignment."""


def tried_mappings(frame: pd.DataFrame) -> dict[tuple[str, int], dict[Assignment, Any]]:
    """Return the measurement of the fastest mapping under each device assignment, in trainings with the fused loop.

    A mapping says on which backends learner, replay management and storage run; a device assignment names only the
    devices of learner and replay management. In rows of earlier versions, which have no assignment, OpenCL counts as
    the CPU.

    A mapping that its race dropped, and that few rounds timed, counts only where no other mapping of its assignment was
    left. An assignment of which all mappings were dropped is kept: a race is among all devices, so that slow devices
    lose it, and how slow they are is what is asked.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them, including failed ones.

    Returns:
        Rows by (workload, batch size), and then by assignment; a failed row if all mappings of the assignment failed.
    """
    rows = frame[(frame["suite"] == Suite.VALIDATION) & (frame["quantity"] == "gradient_steps_per_s")]
    by_place: dict[tuple[str, int], dict[Assignment, list[Any]]] = {}
    for row in records(rows[~(rows["value"] < 0)]):
        if row.loop not in (None, "fused"):
            continue
        place = by_place.setdefault((row.workload, int(row.batch_size)), {})
        place.setdefault(assignment_of(row), []).append(row)
    return {
        place: {choice: min(some, key=_rank) for choice, some in by_choice.items()}
        for place, by_choice in by_place.items()
    }


def _rank(row: Any) -> tuple[bool, int, float]:
    return bool(pd.isna(row.value)), races_lost(row), -row.value


def assignment_of(row: Any) -> Assignment:
    """Return the devices of learner and replay management in a training.

    Args:
        row: a stored measurement, one of those that `records` returns; without a stated assignment, OpenCL counts as
            the CPU.
    """
    if stated := row.assignment:
        return Assignment.parse(stated)
    learner, replay, _ = mapping_of(row).split("-")
    kinds = (Target.parse(each).device.partition(":")[0] for each in (learner, replay))
    return Assignment(*(CPU if kind == OPENCL else kind for kind in kinds))


def of_trainings(
    tried: Tried,
    workload: str,
    part: str,
    sizes: Sequence[int],
    stated: Mapping[int, str],
) -> DeviceTable:
    """Return the table of the fastest trainings with one part on CPU, GPU and FPGA, and the other wherever it is best.

    Args:
        part: "learner" or "replay".
        sizes, stated: as of `DeviceTable`.
    """
    ours: dict[str, dict[int, list[Entry]]] = {}
    for (name, size), by_choice in tried.items():
        if name != workload:
            continue
        for choice, row in by_choice.items():
            kind = getattr(choice, part)
            if kind not in COLUMNS or pd.isna(row.value):
                continue
            entry = Entry(number(row, f"{workload}, batch size {size}"), mapping_of(row))
            other = ours.setdefault(kind, {}).setdefault(size, [entry])[0]
            if entry.number.value > other.number.value:
                ours[kind][size] = [entry]
    validate = f"`placerl validate --only {workload}/{{size}} --tier standard`"
    missing = dict.fromkeys(COLUMNS, validate) | {GPU: f"{validate} on a machine with a CUDA device"}
    where = {"learner": "the learner", "replay": "replay management"}[part]
    title = f"{workload}: training with {where} on the device"
    return DeviceTable(title, "gradient steps (1/s)", ours, missing, sizes, stated=stated)
