"""The calls of the training loop on a platform that is not here, from which `composed-loop` predicts it.

The parts of a round that devices compute are modelled (`roofline`). What the host does besides, acting and the loop's
own time, no data sheet states: it is taken as the committed run that timed the workload last measured it, multiplied by
how many times as long the platform's host takes to begin an operation (`dispatch_us`) as the one that was measured.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import log

import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.mapping.problem import Problem
from placerl.harness.mapping.roofline import Modelled
from placerl.harness.mapping.strategies.composed_loop.lookup import HOSTED
from placerl.harness.mapping.table import Entry, PerformanceTable
from placerl.harness.mapping.target import CPU, STORING_DEVICES, Target
from placerl.harness.platforms import PlatformFile, overheads
from placerl.harness.store import reference
from placerl.harness.store.rows import PieceTime

ACTING, RUNTIME = "round.collect", "round.runtime"
POLICIES = {"torch": Target("torch"), "fpga": Target("native")}
"""By backend of the learner, whose policy acts on the host."""


@dataclass(frozen=True)
class HostCalls:
    """What the host of a committed run did in a round of a workload, besides what devices may compute.

    Attributes:
        acting_s: seconds of a round's vector steps by the learner whose policy acts.
        runtime_s: seconds of the loop itself.
        source: the machine and the run.
    """

    acting_s: Mapping[Target, float]
    runtime_s: float
    source: str


def _of_the_host(table: pd.DataFrame) -> "pd.Series[bool]":
    return (
        (table["suite"] == Suite.PROFILE)
        & table["primitive"].isin((ACTING, RUNTIME))
        & table["value"].notna()
    )


@cache
def host_calls(workload: str, batch_size: int) -> HostCalls | None:
    """Return the host's calls of a workload in the last committed run that timed them, at the nearest batch size.

    None if no committed run did.
    """
    for run in sorted(reference.load(kept=_of_the_host), key=lambda one: one.run.started_at, reverse=True):
        found: dict[int, dict[tuple[str, Target], float]] = {}
        for row in run.measurements:
            if isinstance(row, PieceTime) and row.workload == workload and row.batch_size and row.value:
                cell = row.primitive, Target.parse(row.target or "")
                found.setdefault(row.batch_size, {})[cell] = row.value
        whole = {size: times for size, times in found.items() if _needed() <= times.keys()}
        if whole:
            size = min(whole, key=lambda size: abs(log(size / batch_size)))
            acting_s = {policy: whole[size][ACTING, policy] for policy in POLICIES.values()}
            cpu = run.run.machine["cpu"]["model"]
            source = f"measured at batch size {size} on {cpu}, committed run {run.name} of {run.run.started_at[:10]}"
            return HostCalls(acting_s, whole[size][RUNTIME, CPU], source)
    return None


def _needed() -> set[tuple[str, Target]]:
    return {(RUNTIME, CPU), *((ACTING, policy) for policy in POLICIES.values())}


def pieces(
    platform: PlatformFile,
    modelled: list[Modelled],
    inserting: list[Modelled],
    problem: Problem,
    host: HostCalls,
) -> Iterator[Modelled]:
    """Yield the calls of a round on a platform, with the names that `composed_loop.pieces` lists.

    Args:
        modelled: the times of the primitives on the platform.
        inserting: those of inserting a round's transitions in one call.
        host: the host's calls elsewhere.
    """
    table = PerformanceTable(one.entry for one in modelled)
    inserted = PerformanceTable(one.entry for one in inserting)
    factor = slowdown(platform)

    def piece(primitive: str, target: Target, time_s: float, formula: str) -> Modelled:
        entry = Entry(primitive, target, problem.batch_size, time_s, time_s, time_s, Provenance.MODELLED)
        return Modelled(entry, formula)

    def on_host(primitive: str, target: Target, time_s: float) -> Modelled:
        return piece(
            primitive, target, factor * time_s, f"{1e6 * time_s:,.1f} us {host.source}, x {factor:.3g}"
        )

    yield on_host(RUNTIME, CPU, host.runtime_s)
    gather_s, write_s = table.time_s("storage.gather", CPU), inserted.time_s("storage.insert", CPU)
    yield piece("round.gather", CPU, gather_s, "storage.gather")
    yield piece("round.write", CPU, write_s, "storage.insert of a round's transitions")
    learners, managers = table.targets("learner.step"), table.targets("sum_tree.sample")
    rounds = {HOSTED: (learners, managers)}
    for place in table.targets("storage.gather"):
        if place.backend in STORING_DEVICES:
            there = [one for one in learners if one.device == place.device]
            apart = [one for one in learners if one.device != place.device]
            rounds[f"{place}_round"] = there, managers
            rounds[f"{place}_apart_round"] = apart, [one for one in managers if one.device == place.device]
    for name, (learning, managing) in rounds.items():
        for learner in learning:
            yield on_host(f"{name}.collect", learner, host.acting_s[POLICIES[learner.backend]])
            yield piece(f"{name}.learn", learner, table.time_s("learner.step", learner), "learner.step")
        for manager in managing:
            here = manager.device == CPU.device  # a call on the host gathers and writes, too
            sample_s = table.time_s("sum_tree.sample", manager) + here * gather_s
            insert_s = inserted.time_s("sum_tree.insert", manager) + here * write_s
            yield piece(
                f"{name}.sample", manager, sample_s, "sum_tree.sample, on the host with storage.gather"
            )
            yield piece(
                f"{name}.insert", manager, insert_s, "sum_tree.insert, on the host with storage.insert"
            )
            yield piece(
                f"{name}.update", manager, table.time_s("sum_tree.update", manager), "sum_tree.update"
            )


def slowdown(platform: PlatformFile) -> float:
    """Return how many times as long as on the measured host an operation takes to begin on the platform's.

    Args:
        platform: states `dispatch_us` of its host, or gets the measured one (`overheads.completed`).
    """
    _, measured = overheads.UNSTATED["cpu"]
    stated = overheads.completed(platform)[0].find("cpu").dispatch_us
    return 1.0 if stated is None else stated.value / measured.value
