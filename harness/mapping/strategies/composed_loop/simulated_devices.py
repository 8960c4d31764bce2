"""What a part on a simulated device changes in a round: links, and gathering and writing of their own."""

from dataclasses import replace

from placerl.harness.mapping.base import Platform, transfer_s
from placerl.harness.mapping.problem import (
    INDEX_BYTES,
    PRIORITY_BYTES,
    TD_ERROR_BYTES,
    WEIGHT_BYTES,
    WORD_BYTES,
    Problem,
)
from placerl.harness.mapping.strategies.composed_loop.displaced_caches import DisturbedPart
from placerl.harness.mapping.strategies.composed_loop.lookup import JOINT, is_simulated
from placerl.harness.mapping.strategies.composed_loop.pieces import Calls, ComposedRound
from placerl.harness.mapping.table import PerformanceTable
from placerl.harness.mapping.target import CPU, Mapping, Target


def with_simulated(
    composed: ComposedRound, table: PerformanceTable, problem: Problem, platform: Platform, mapping: Mapping
) -> ComposedRound:
    """Add the times of links to and from simulated devices, and separate gathering by a replay or a storage there."""
    calls, slowed = dict(composed.calls), dict(composed.disturbed)
    learner = mapping.learner if is_simulated(table, "round.learn", mapping.learner) else CPU
    rmm = mapping.rmm if is_simulated(table, "round.sample", mapping.rmm) else CPU
    storage = mapping.storage
    if learner == rmm == CPU:
        return composed

    def link_s(source: Target, target: Target, sent_bytes: int) -> float:
        if source == target == CPU:
            return 0.0  # included in the measured time
        return transfer_s(platform, source.device, target.device, sent_bytes)

    batch, batch_bytes = problem.batch_size, problem.batch_size * problem.item_bytes
    gathering = ("storage.gather", storage)  # timed on the devices of a platform that is not here

    def gathered_there_s() -> float:
        return table.time_s(*gathering) if gathering in table else link_s(storage, storage, batch_bytes)

    transfers_s = {"learner": link_s(storage, learner, batch_bytes)}
    if learner != CPU:
        transfers_s["publish"] = link_s(learner, CPU, problem.acting_words * WORD_BYTES)
        slowed.pop("learner", None)
    if not problem.on_policy:
        rounds = composed.gradient_steps // problem.round_gradient_steps
        rows = rounds * problem.round_vector_steps * problem.actors
        stored_bytes, priority_bytes = rows * problem.item_bytes, rows * PRIORITY_BYTES
        together = rmm.device == storage.device  # one transfer brings items and priorities
        transfers_s["insert"] = link_s(CPU, rmm, priority_bytes + (stored_bytes if together else 0))
        stored_s = 0.0 if together else link_s(CPU, storage, stored_bytes)
        if rmm != CPU:
            transfers_s["insert"] += stored_s
        elif storage != CPU:  # the board gathers, and not the host
            transfers_s["write"] = stored_s
            transfers_s["gather"] = link_s(CPU, storage, batch * INDEX_BYTES)
            transfers_s["gather"] += gathered_there_s()
            gather = "strict_round.gather" if ("strict_round.gather", CPU) in table else "round.gather"
            sampled_s, gathered_s = (table.time_s(*cell) for cell in (calls[JOINT][0], (gather, CPU)))
            transfers_s[JOINT] = -min(sampled_s, gathered_s)
        transfers_s["learner"] += link_s(rmm, learner, batch * WEIGHT_BYTES)
        transfers_s["update"] = link_s(learner, rmm, batch * TD_ERROR_BYTES)
    if rmm != CPU:
        calls["sample"] = calls.pop(JOINT)
        for term in ("insert", "update"):  # a device's clock does not depend on the host's caches
            slowed.pop(term, None)
        transfers_s["gather"] = link_s(rmm, storage, batch * INDEX_BYTES)
        if storage == CPU:
            inserts = calls["insert"][0][0].partition(".")[0]
            calls["gather"] = (("round.gather", CPU), calls["sample"][1])
            calls["write"] = ((f"{inserts}.write", CPU), 1)
        else:
            transfers_s["gather"] += gathered_there_s()
    if learner != CPU and rmm != CPU:
        _among_simulated(calls, slowed, table)
    return replace(composed, calls=calls, transfers_s=transfers_s, disturbed=slowed)


def _among_simulated(calls: Calls, slowed: dict[str, DisturbedPart], table: PerformanceTable) -> None:
    """Use the host's calls next to a learner and a replay that are both simulated, if they were timed.

    Two simulations displace more of the caches than either.
    """
    for term in ("actor", "gather", "write", "loop"):
        if term not in calls:
            continue
        (primitive, target), times = calls[term]
        rounds, _, part = primitive.partition(".")
        cell = (f"simulated_round.{part}", target)
        if rounds in ("round", "fused_round") and cell in table:
            calls[term] = (cell, times)
            slowed.pop(term, None)
