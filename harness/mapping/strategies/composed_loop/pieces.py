"""The measured pieces, and the calls that a round of each loop is made of.

In the relaxed loop the replay manager is a unit of its own if it is a native thread or simulated: sampling and
updating run in parallel with the learner, on D batches ahead, and the slower of the two sets the pace. Each has a core
of its own, so neither displaces the other's data. A manager in a Python thread shares the interpreter's lock with the
learner, so the two are assumed to take turns, and handing calls to the thread is part of the runtime.

On-policy, an iteration is T vector steps of collection, the preparation of the samples (advantages, returns),
and K epochs of minibatches (PPO 2.1). A gradient step is charged its share of the iteration. The model ignores
early stopping.

| primitive | a call is | target |
|---|---|---|
| `round.collect` | the vector steps of one round (on-policy: one vector step) | the learner, whose policy acts |
| `round.insert` | the insertion of a round's transitions | the replay management |
| `round.sample` | sampling, gathering, importance weights (simulated: without gathering) | the replay management |
| `round.gather`, `.write` | with a part on a simulated device: gathering, writing the transitions | the storage |
| `round.learn` | a step on a batch just gathered (on-policy: a minibatch dealt and learnt) | the learner |
| `round.update` | the priority update | the replay management |
| `beside_learner.insert`, `.sample`, `.update`, `.runtime` | the native replay's parts, and the loop's | the learner |
| `beside_replay.collect`, `.learn`, `.runtime` | the native learner's parts, and the loop's | the replay management |
| `opencl_round`, `cuda_round` | each part of `round`, with learner and storage on that device | as for `round` |
| `opencl_apart_round`, `cuda_apart_round` | the same with replay management, not learner, there | as for `round` |
| `simulated_round` | the host's parts of `round`, with learner and replay both simulated | as for `round` |
| `cold_round` | each part of `round`, the caches emptied before it | as for `round` |
| `strict_round.insert`, `.sample`, `.update` | the separate calls if `round` has them fused | replay management |
| `strict_round.gather` | gathering in these | the storage |
| `strict_round.collect`, `.learn` | the native learner's parts next to these separate calls | the learner |
| `fused_round.collect`, `.insert` | a round's calls if gradient steps are fused | learner and replay management |
| `fused_round.steps` | the gradient steps of a round, fused | learner and replay management |
| `native_round.collect`, `.insert`, `.steps` | the parts of a round that is one native call with others | learner |
| `native_round.runtime` | what is left of a round in such a call | cpu |
| `native_iteration.collect`, `.prepare`, `.learn`, `.runtime` | the same of an iteration (on-policy) | the same |
| `overlapped_round.collect` | an iteration's vector steps in a process, requested and awaited | cpu |
| `overlapped_round.collect` | the same alongside a simulated learner, or of a policy in fixed point | the learner |
| `overlapped_round.insert`, `.steps`, `.write` | these calls of an iteration | replay management; both; the storage |
| `opencl_overlapped_round.insert`, `cuda_...` | the same, with the storage on that device | replay management |
| `beside_actors.steps` | the same gradient steps while the actors act | both |
| `beside_actors.request`, `.receive` | the host's part of the actors' work: asking, and reading the result | both |
| `overlapped_round.publish` | the weights handed to the actors | learner |
| `relaxed_round.learn`, `.sample`, `.update` | a gradient step, learner and manager in a thread each | both |
| `concurrent_round.learn`, `.sample`, `.update` | the same with D batches ahead, bound to cores | both |
| `resident_round.collect` | the vector steps of a round that stays on a device | the storage |
| `resident_round.steps` | its gradient steps, with the replay's work | the learner |
| `resident_round.runtime` | its share of a graph's start | the replay management |
| `concurrent_round.collect` | a round's vector steps in C++ threads, inserted, summed over the threads | the storage |
| `iteration.collect` | an iteration's vector steps in processes (on-policy) | the learner, whose policy acts |
| `relaxed_round.runtime` | a round of the runtime, with parts that do nothing and a manager in a Python thread | cpu |
| `round.prepare` | advantages and returns of an iteration | cpu; a learner in PyTorch |
| `iteration.runtime` | an iteration of the runtime whose parts do nothing (on-policy) | cpu |
| `round.runtime`, `fused_round.runtime` | a round of the runtime whose parts do nothing | cpu |
"""

from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field

from placerl.harness.loop.clock import HOST, RMM
from placerl.harness.mapping.problem import Problem
from placerl.harness.mapping.strategies.composed_loop.displaced_caches import DisturbedPart, disturbed_parts
from placerl.harness.mapping.strategies.composed_loop.lookup import (
    CPU,
    HOSTED,
    JOINT,
    fuses,
    fuses_rounds,
    is_simulated,
    rounds_of,
)
from placerl.harness.mapping.table import Cell, PerformanceTable
from placerl.harness.mapping.target import STORING_DEVICES, Mapping

COPIES = "copies"
"""Copies that an insertion makes of batches that were sampled ahead, on their device; part of the term "insert"."""

Calls = dict[str, tuple[Cell, float]]
"""For each term of the prediction, the key of its table entry and its number of calls in a round."""


@dataclass(frozen=True)
class ComposedRound:
    """The calls of a round, as the table gives them.

    Attributes:
        calls: calls of the host or a device, by term.
        disturbed: the terms that partners slow down.
        transfers_s: seconds that a call's inputs take to or from a simulated device, by term.
        manager: unit that calls the replay management.
    """

    calls: Calls
    gradient_steps: int
    manager: str = HOST
    transfers_s: MappingABC[str, float] = field(default_factory=dict)
    disturbed: MappingABC[str, DisturbedPart] = field(default_factory=dict)

    def seconds(self, table: PerformanceTable, term: str) -> float:
        """Return the seconds of a term in a round."""
        cell, times = self.calls[term]
        time_s = table.time_s(*cell)
        if term in self.disturbed:
            time_s = self.disturbed[term].seconds(table, time_s)
        return times * (time_s + self.transfers_s.get(term, 0.0))

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cells that the round uses."""
        added = [cell for term, one in self.disturbed.items() if term in self.calls for cell in one.cells]
        return tuple(dict.fromkeys([*(cell for cell, _ in self.calls.values()), *added]))


def in_turn_round(
    table: PerformanceTable, problem: Problem, mapping: Mapping, *, apart: bool
) -> ComposedRound:
    """Return a round of the fused loop, or of the strict loop, in which every part is a separate call (`apart`)."""
    learner, rmm, steps = mapping.learner, mapping.rmm, problem.round_gradient_steps
    if not apart and fuses_rounds(table, mapping):
        return ComposedRound(
            {
                "actor": (("native_round.collect", learner), 1),
                "insert": (("native_round.insert", learner), 1),
                "step": (("native_round.steps", learner), 1),
                "loop": (("native_round.runtime", CPU), 1),
            },
            steps,
        )
    if not apart and fuses(table, mapping):
        return ComposedRound(
            {
                "actor": (("fused_round.collect", learner), 1),
                "insert": (("fused_round.insert", rmm), 1),
                "step": (("fused_round.steps", learner), 1),
                "loop": (("fused_round.runtime", CPU), 1),
            },
            steps,
        )
    rounds = rounds_of(mapping)
    apart = rounds == HOSTED and (apart or mapping.storage != CPU)  # apart from a storage on a board, too
    replay = "strict_round" if apart and ("strict_round.sample", rmm) in table else rounds
    beside = replay if (f"{replay}.learn", learner) in table else rounds
    return ComposedRound(
        {
            "actor": ((f"{beside}.collect", learner), 1),
            "insert": ((f"{replay}.insert", rmm), 1),
            JOINT: ((f"{replay}.sample", rmm), steps),
            "learner": ((f"{beside}.learn", learner), steps),
            "update": ((f"{replay}.update", rmm), steps),
            "loop": (("round.runtime", CPU), 1),
        },
        steps,
        disturbed=disturbed_parts(table, mapping),
    )


def overlapped_round(
    table: PerformanceTable, problem: Problem, mapping: Mapping, *, relaxed: bool = False
) -> ComposedRound:
    """Return an iteration with concurrent actors: in a process, or in virtual time on a core of their own.

    In the relaxed loop, replay manager and learner have a core each, so that neither displaces the other's data,
    unless the manager is a Python thread and takes turns with the learner.
    """
    learner, rmm = mapping.learner, mapping.rmm
    profiled = rounds_of(mapping)
    simulated = is_simulated(table, "round.learn", learner) or is_simulated(table, "round.sample", rmm)
    rounds = problem.overlapped_rounds(simulated)
    steps = rounds * problem.round_gradient_steps
    insertion = "overlapped_round" if profiled == HOSTED else f"{mapping.storage}_overlapped_round"
    calls: Calls = {"insert": ((f"{insertion}.insert", rmm), 1)}
    if calls["insert"][0] not in table:
        calls["insert"] = ((f"{profiled}.insert", rmm), rounds)
    collected = (
        "overlapped_round.collect",
        learner,
    )  # with a simulation, only the first step has cold caches
    if collected in table:
        calls["actor"] = (collected, 1)
    elif simulated:
        calls["actor"] = (("round.collect", learner), rounds)
    else:
        calls["actor"] = (("overlapped_round.collect", CPU), 1)
    if not simulated:
        calls["publish"] = (("overlapped_round.publish", learner), 1)
    threads = relaxed and fuses(table, mapping) and ("relaxed_round.learn", learner) in table
    locked = relaxed and not threads and not simulated
    if threads:
        calls |= {
            JOINT: (("relaxed_round.sample", rmm), steps),
            "learner": (("relaxed_round.learn", learner), steps),
            "update": (("relaxed_round.update", rmm), steps),
            "loop": (("fused_round.runtime", CPU), 1),
        }
    elif not relaxed and fuses(table, mapping):
        calls |= {"step": (("overlapped_round.steps", learner), 1), "loop": (("fused_round.runtime", CPU), 1)}
    else:
        on_board = profiled == HOSTED and mapping.storage != CPU and ("strict_round.sample", rmm) in table
        replay = "strict_round" if on_board else profiled
        calls |= {
            JOINT: ((f"{replay}.sample", rmm), steps),
            "learner": ((f"{profiled}.learn", learner), steps),
            "update": ((f"{replay}.update", rmm), steps),
            "loop": (("round.runtime", CPU), rounds),
        }
        if locked and ("relaxed_round.runtime", CPU) in table:  # which older profiles do not have
            calls["loop"] = (("relaxed_round.runtime", CPU), rounds)
    if relaxed and not simulated and mapping.storage.backend in STORING_DEVICES:
        # Of the batches that wait during an insertion, those sampled since the last one are copied. The insertion that
        # was timed (D = 0) has none.
        copies = min(steps // calls["insert"][1], problem.ahead)
        calls[COPIES] = (("storage.gather", mapping.storage), copies * calls["insert"][1])
    manager = RMM if relaxed and not locked else HOST
    # In virtual time one thread does all the work, so that simulating displaces every part's data.
    slowed = disturbed_parts(table, mapping) if manager == HOST or simulated else {}
    disturbed = {term: slowed[term] for term in calls if term in slowed and term != "actor"}
    return ComposedRound(calls, steps, manager, disturbed=disturbed)


def concurrent_round(problem: Problem, mapping: Mapping) -> ComposedRound:
    """Return a round of the concurrent loop, whose threads run free; only the native mapping's are in the table."""
    learner, rmm, steps = mapping.learner, mapping.rmm, problem.round_gradient_steps
    return ComposedRound(
        {
            "actor": (("concurrent_round.collect", mapping.storage), 1),
            JOINT: (("concurrent_round.sample", rmm), steps),
            "learner": (("concurrent_round.learn", learner), steps),
            "update": (("concurrent_round.update", rmm), steps),
        },
        steps,
        RMM,
    )


def resident_round(problem: Problem, mapping: Mapping) -> ComposedRound:
    """Return a round of the resident loop; only mappings whose parts are all on one device are in the table."""
    return ComposedRound(
        {
            "actor": (("resident_round.collect", mapping.storage), 1),
            "step": (("resident_round.steps", mapping.learner), 1),
            "loop": (("resident_round.runtime", mapping.rmm), 1),
        },
        problem.round_gradient_steps,
    )


def on_policy_round(table: PerformanceTable, problem: Problem, mapping: Mapping) -> ComposedRound:
    """Return an iteration of the on-policy loop."""
    steps = problem.iteration_gradient_steps
    if ("native_iteration.learn", mapping.learner) in table:
        return ComposedRound(
            {
                "actor": (("native_iteration.collect", mapping.learner), 1),
                "prepare": (("native_iteration.prepare", mapping.learner), 1),
                "learner": (("native_iteration.learn", mapping.learner), 1),
                "loop": (("native_iteration.runtime", CPU), 1),
            },
            steps,
        )
    collect: tuple[Cell, float] = (("round.collect", mapping.learner), problem.trajectory_length)
    if ("iteration.collect", mapping.learner) in table:
        collect = (("iteration.collect", mapping.learner), 1)
    prepare: Cell = ("round.prepare", mapping.learner)
    calls: Calls = {
        "actor": collect,
        "prepare": (prepare if prepare in table else ("round.prepare", CPU), 1),
        "learner": (("round.learn", mapping.learner), steps),
    }
    if ("iteration.runtime", CPU) in table:  # which older profiles do not have
        calls["loop"] = (("iteration.runtime", CPU), 1)
    return ComposedRound(calls, steps)
