"""The mappings among which a strategy chooses: those whose parts the performance table has times for."""

from collections.abc import Callable, Iterable
from math import inf

from placerl.harness.mapping.table import PerformanceTable
from placerl.harness.mapping.target import Mapping, Target, storage_on

REFERENCE = "reference"
"""Name of the NumPy backend against which the others are checked; it is profiled, but no mapping uses it."""
COMPARED_ONLY = ("binary", REFERENCE)
"""Backends that exist only to be compared with, and take no part in a choice."""


def candidates(table: PerformanceTable) -> list[Mapping]:
    """Return every mapping of learners and replay managements that were timed in the table.

    The storage is on the CPU or on a device of the learner or the replay management, if that device can hold it.
    """
    return [
        Mapping(learner, rmm, storage_on(device))
        for learner in table.targets("learner.step")
        for rmm in rmm_targets(table)
        for device in sorted({"cpu", learner.device, rmm.device})
        if can_store(table, device)
    ]


def can_store(table: PerformanceTable, device: str) -> bool:
    """Return whether a device can hold the storage of the transitions.

    It can if the primitive `storage.gather` was timed on it. If `storage.gather` was not timed at all, every device
    can.
    """
    places = {target.device for target in table.targets("storage.gather")}
    return not places or device in places


def rmm_targets(table: PerformanceTable) -> list[Target]:
    """Return the backends and devices that can manage the replay: both sampling and updating were timed on them.

    The reference backend is left out.
    """
    updates = set(table.targets("sum_tree.update"))
    both = [target for target in table.targets("sum_tree.sample") if target in updates]
    return [target for target in both if target.backend != REFERENCE]


def least_traffic(
    table: PerformanceTable,
    costs: Iterable[tuple[str, float]],
    traffic_of: Callable[[str, str, float], float],
) -> Target:
    """Return the device for the storage that causes the least traffic, as a `Target`.

    MAP Algorithm 3 lines 9-16, PRL Algorithm 2 lines 6-13.

    Args:
        table: says which devices can hold a storage.
        costs: for each component that reads or writes the storage, its device and its amount of data. Among equal
            places, the first in this order is chosen.
        traffic_of: function of the storage's device, the component's device and the amount of data, which returns the
            traffic.

    Returns:
        One of the components' devices, or the CPU if none of them can hold the storage.
    """
    components = list(costs)
    best, least = "cpu", inf
    for place, _ in components:
        traffic = sum(traffic_of(place, other, cost) for other, cost in components)
        if can_store(table, place) and traffic < least:
            best, least = place, traffic
    return storage_on(best)
