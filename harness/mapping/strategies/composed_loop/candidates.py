"""The mappings whose calls in the loop were timed."""

from placerl.harness.mapping.strategies.composed_loop.lookup import is_simulated
from placerl.harness.mapping.table import PerformanceTable
from placerl.harness.mapping.target import CPU, NATIVE, STORING_DEVICES, Mapping, Target, storage_on


def composed_candidates(table: PerformanceTable) -> list[Mapping]:
    """Return every mapping (devices of learner, replay management and storage) whose calls in the loop were timed.

    On-policy there is no replay, so the target of the replay management is always `native`.
    """
    managers = table.targets("round.sample") or [Target("native")]
    on_host = [
        Mapping(learner, rmm, storage)
        for learner in table.targets("round.learn")
        for rmm in managers
        for storage in dict.fromkeys((CPU, *_boards(table, learner, rmm)))
    ]
    stored = [
        Mapping(learner, rmm, Target(place))
        for place in STORING_DEVICES
        for rounds in (f"{place}_round", f"{place}_apart_round")
        for learner in table.targets(f"{rounds}.learn")
        for rmm in table.targets(f"{rounds}.sample")
    ]
    return on_host + stored


def concurrent_candidates(table: PerformanceTable) -> list[Mapping]:
    """Return the mappings whose threads of the concurrent loop were timed: at most one, all of it native."""
    return [Mapping(learner, NATIVE, CPU) for learner in table.targets("concurrent_round.learn")]


def resident_candidates(table: PerformanceTable) -> list[Mapping]:
    """Return the mappings whose rounds in the resident loop were timed: all parts on one device."""
    return [
        Mapping(learner, learner, storage_on(learner.device))
        for learner in table.targets("resident_round.steps")
    ]


def _boards(table: PerformanceTable, learner: Target, rmm: Target) -> list[Target]:
    """Return the simulated devices of replay management and learner, which can hold the storage."""
    parts = (("round.sample", rmm), ("round.learn", learner))
    return [
        storage_on(target.device) for primitive, target in parts if is_simulated(table, primitive, target)
    ]
