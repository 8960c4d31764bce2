"""Selects, under each device assignment, the fastest mapping of the trainings that a validation ran.

A device assignment names the device of the learner and that of replay management.
"""

from typing import Any

import pandas as pd

from placerl.harness.core.suites import Suite
from placerl.harness.mapping import Target
from placerl.harness.mapping.assignments import CPU, OPENCL, Assignment
from placerl.harness.papers.evidence import mapping_of, races_lost, records


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
