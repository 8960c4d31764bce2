"""A performance model of the runtime's loop, composed from its measured pieces, including the runtime's own time.

`PrimitiveSum` adds up the papers' primitives, each profiled alone. This model instead uses the calls (its pieces)
that one thread makes in a round: an actor's collection with its inference, the insertion of a round's transitions,
then either whole gradient steps in one fused call, or sampling with gathering, the learner's step and the priority
update. The rest is the runtime's own time, profiled with parts that do nothing. The pieces are scheduled in the
order in which the runtime calls them (`harness.mapping.schedule`). On the host alone their times are added;
simulated devices, and actors in a process of their own, run in parallel.

A part (actor, replay, learner) runs slower after a part that displaces its data from the caches: the native replay
after a gradient step in PyTorch, the actor after a sum tree in PyTorch. To predict this without measuring every
mapping, three things are profiled: each learner together with the native replay, each replay together with the
native learner, and each part with the private caches emptied before it. The slowdown of the native parts then shows
how much of the caches a partner displaces (`beside_learner`, `beside_replay`): nothing if they are as fast as with a
native partner, everything if they are as slow as with emptied caches. Every other part is assumed to slow down by
the same fraction of the warm-to-cold difference.

Busy cores share caches and memory, and so slow each other down. The native learner's steps are
timed alone and while the actors act (`beside_actors`), which shows by how much; what runs in parallel in processes and
threads is predicted to take longer by this factor (`_Beside`).

In the relaxed loop the replay manager is a unit of its own if it is a native thread or simulated: sampling and
updating run in parallel with the learner, on D batches ahead, and the slower of the two sets the pace. Each has a core
of its own, so neither displaces the other's data. A machine with fewer cores than busy threads does no more than its
cores can (`_least_s`). A manager in a Python thread shares the interpreter's lock with the learner, so the two are
assumed to take turns, and handing calls to the thread is part of the runtime.

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
| `overlapped_round.collect` | an iteration's vector steps in a process, requested and awaited | cpu |
| `overlapped_round.collect` | the same alongside a simulated learner, or of a policy in fixed point | the learner |
| `overlapped_round.insert`, `.steps`, `.write` | these calls of an iteration | replay management; both; the storage |
| `opencl_overlapped_round.insert`, `cuda_...` | the same, with the storage on that device | replay management |
| `beside_actors.steps` | the same gradient steps while the actors act | both |
| `beside_actors.request`, `.receive` | the host's part of the actors' work: asking, and reading the result | both |
| `overlapped_round.publish` | the weights handed to the actors | learner |
| `relaxed_round.learn`, `.sample`, `.update` | a gradient step, learner and manager in a thread each | both |
| `iteration.collect` | an iteration's vector steps in processes (on-policy) | the learner, whose policy acts |
| `relaxed_round.runtime` | a round of the runtime, with parts that do nothing and a manager in a Python thread | cpu |
| `round.prepare` | advantages and returns of an iteration | cpu |
| `round.runtime`, `fused_round.runtime` | a round of the runtime whose parts do nothing | cpu |
"""

from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field, replace

from harness.core.provenance import Provenance
from harness.mapping import schedule
from harness.mapping.base import (
    INDEX_BYTES,
    PRIORITY_BYTES,
    WEIGHT_BYTES,
    WORD_BYTES,
    Cell,
    Loop,
    Mapping,
    PerformanceTable,
    Platform,
    Prediction,
    Problem,
    Target,
    inputs_provenance,
    transfer_s,
)
from harness.mapping.exhaustive import Exhaustive
from harness.mapping.schedule import ACTORS, HOST, LINK, RMM, STORAGE, Call
from primitives.replay import device

CPU, NATIVE = Target("cpu"), Target("native")
STORING_DEVICES = tuple(status.name for status in device.backends())
"""Kinds of devices whose memory can hold the replay's transitions. Simulated devices keep them in the host's memory."""
NAMES = {
    Loop.FUSED: "composed-loop",
    Loop.STRICT: "strict-loop",
    Loop.OVERLAPPED: "overlapped-loop",
    Loop.RELAXED: "relaxed-loop",
}
COPIES = "copies"
"""Copies that an insertion makes of batches that were sampled ahead, on their device; part of the term "insert"."""
JOINT = "sample and gather"
"""The term of sampling where the same call gathers."""
HOSTED = "round"
"""Rounds with the storage on the host, or on a simulated device, whose data is there too."""
BESIDE = (Loop.OVERLAPPED, Loop.RELAXED)
"""Loops in which the actors run in parallel with the rest."""

Calls = dict[str, tuple[Cell, float]]
"""For each term of the prediction, the key of its table entry and its number of calls in a round."""


@dataclass(frozen=True)
class _Partner:
    """Another part of the loop, and its effect on a native part.

    Attributes:
        beside: the native part when it runs with this partner.
        alone: the native part when it runs with native parts only.
        emptied: the native part with the caches emptied.
    """

    beside: Cell
    alone: Cell
    emptied: Cell

    def added_s(self, table: PerformanceTable) -> float:
        """Return the seconds that the partner adds to the native part."""
        return table.time_s(*self.beside) - table.time_s(*self.alone)

    def taken(self, table: PerformanceTable) -> float:
        """Return the share of the caches that the partner takes, 0 to 1."""
        most_s = table.time_s(*self.emptied) - table.time_s(*self.alone)
        return min(1.0, max(0.0, self.added_s(table) / most_s)) if most_s > 0 else 0.0


@dataclass(frozen=True)
class _Disturbed:
    """A part that runs with partners that displace its data from the caches.

    Attributes:
        partners: its partners; the one that takes the most counts, because the others cannot displace the same
            data again.
        emptied: the part with the caches emptied; None for a native part, for which the partner's effect was
            measured.
    """

    partners: tuple[_Partner, ...]
    emptied: Cell | None

    def seconds(self, table: PerformanceTable, time_s: float) -> float:
        """Return the predicted seconds of a call that takes `time_s` next to native parts."""
        if self.emptied is None:
            return max(0.0, time_s + max(partner.added_s(table) for partner in self.partners))
        taken = max(partner.taken(table) for partner in self.partners)
        return time_s + taken * max(0.0, table.time_s(*self.emptied) - time_s)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cells that the prediction uses."""
        made = [cell for one in self.partners for cell in (one.beside, one.alone, one.emptied)]
        return (*made, *([self.emptied] if self.emptied else []))


@dataclass(frozen=True)
class _Composed:
    """The calls of a round, as the table gives them.

    Attributes:
        calls: calls of the host or a device, by term.
        gradient_steps: gradient steps of the round.
        disturbed: the terms that partners slow down.
        transfers_s: seconds that a call's inputs take to or from a simulated device, by term.
        manager: unit that calls the replay management.
    """

    calls: Calls
    gradient_steps: int
    manager: str = HOST
    transfers_s: MappingABC[str, float] = field(default_factory=dict)
    disturbed: MappingABC[str, _Disturbed] = field(default_factory=dict)

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


class ComposedLoop:
    """A performance model of one of the runtime's training loops, composed from the measured times of the loop's calls.

    Args:
        loop: the loop, an order of calls, whose throughput is predicted.
    """

    def __init__(self, loop: Loop = Loop.FUSED) -> None:
        self.name = NAMES[loop]
        self.loop = loop

    def predict(
        self, table: PerformanceTable, problem: Problem, platform: Platform, mapping: Mapping
    ) -> Prediction:
        """Return the predicted throughput of a mapping.

        Args:
            table: times of the primitives, by backend and device.
            problem: properties of the workload, such as the batch size.
            platform: links and cores of the machine.
            mapping: backend and device of learner, replay management and storage.

        Raises:
            KeyError: a call that the model needs was not timed.
        """
        if problem.on_policy:
            made = _on_policy(table, problem, mapping)
        elif self.loop in BESIDE:
            made = _overlapped(table, problem, mapping, relaxed=self.loop is Loop.RELAXED)
        else:
            made = _in_turn(table, problem, mapping, apart=self.loop is Loop.STRICT)
        simulated = _with_simulated(made, table, problem, platform, mapping)
        seconds = {term: simulated.seconds(table, term) for term in simulated.calls}
        if COPIES in seconds:
            seconds["insert"] += seconds.pop(COPIES)
        # gathering uses a simulated device's memory
        if "gather" in simulated.transfers_s and "gather" not in seconds:
            seconds["gather"] = made.gradient_steps * simulated.transfers_s["gather"]
        if "write" in simulated.transfers_s:
            seconds["write"] = simulated.transfers_s["write"]
        if "publish" in simulated.transfers_s:
            seconds["publish"] = simulated.transfers_s["publish"]
        ahead = problem.ahead if self.loop is Loop.RELAXED else 0
        # On one core nothing runs in parallel.
        parallel = self.loop in BESIDE and simulated is made and platform.cpu_cores > 1
        beside = _Beside.of(table, mapping) if parallel else None
        if beside:
            beside.slow_down(seconds)
        round_s = self._round(simulated, table, seconds, ahead).period_s
        if self.loop in BESIDE and simulated is made:
            round_s = max(round_s, _least_s(seconds, platform.cpu_cores, threads=made.manager == RMM))
        cells = tuple(dict.fromkeys((*simulated.cells, *(beside.cells if beside else ()))))
        return Prediction(
            mapping=mapping,
            model=self.name,
            gps=made.gradient_steps / round_s,
            terms_s={term: value / made.gradient_steps for term, value in seconds.items()},
            cells=cells,
            inputs=inputs_provenance(table, cells),
        )

    def _round(
        self, made: _Composed, table: PerformanceTable, seconds: MappingABC[str, float], ahead: int
    ) -> schedule.ScheduledRound:
        overlapped, learn = self.loop in BESIDE, "step" if "step" in seconds else "learner"
        times = 1 if learn == "step" else made.gradient_steps

        def call(term: str, unit: str = HOST, times: int = 1) -> Call:
            if term in made.calls and _simulated(table, *made.calls[term][0]):
                unit = made.calls[term][0][1].device
            return Call(unit, seconds.get(term, 0.0) / times)

        return schedule.ScheduledRound(
            act=call("actor", ACTORS if overlapped else HOST),
            insert=call("insert"),
            sample=call("sample" if "sample" in seconds else JOINT, made.manager, times),
            gather=call("gather", STORAGE, times),
            write=call("write", STORAGE),
            learn=call(learn, times=times),
            update=call("update", made.manager, times),
            gradient_steps=times,
            publish=call("publish", LINK if "publish" in made.transfers_s else HOST),
            host_s=sum(seconds.get(term, 0.0) for term in ("loop", "prepare")),
            overlapped=overlapped,
            ahead=ahead,
        )


LEAST_ACTING = 0.1
"""Least share of the steps' seconds that acting takes where it shows by how much two busy cores slow each other down.

With Hopper's steps at B = 8192 acting took 0.5% of 150 ms: steps that happened to take 5% longer while the actors acted
gave a factor of 11.
"""
MOST_SLOWED = 2.0
"""Largest factor by which two busy cores slow each other down: they are then as slow as if they took turns."""


@dataclass(frozen=True)
class _Beside:
    """The native learner's steps of an iteration, alone and while the actors act.

    Attributes:
        alone_s, beside_s: seconds of the steps.
        acting_s: seconds of the actors' work, alone, with the request and its answer.
        handing_s: seconds of the host for the request and the answer.
        cells: the entries of the table with these seconds.
    """

    alone_s: float
    beside_s: float
    acting_s: float
    handing_s: float
    cells: tuple[Cell, ...]

    @classmethod
    def of(cls, table: PerformanceTable, mapping: Mapping) -> "_Beside | None":
        """Return what was timed with a mapping's learner; None if that is not all."""
        learner = mapping.learner
        acting = ("overlapped_round.collect", learner)
        if acting not in table:
            acting = ("overlapped_round.collect", CPU)
        beside = [(f"beside_actors.{part}", learner) for part in ("steps", "request", "receive")]
        cells = (("overlapped_round.steps", learner), acting, *beside)
        if not _fuses(table, mapping) or not all(cell in table for cell in cells):
            return None
        alone_s, acting_s, beside_s, request_s, receive_s = (table.time_s(*cell) for cell in cells)
        return cls(alone_s, beside_s, acting_s, request_s + receive_s, cells)

    @property
    def factor(self) -> float:
        """Return by what factor two busy cores slow each other down, at least 1.

        While the shorter of steps and acting goes on, both take longer by this factor, so the steps take longer by
        (factor - 1) times the shorter one's seconds.
        """
        return 1 + max(0.0, self.beside_s - self.alone_s) / min(self.alone_s, self.acting_s)

    @property
    def factor_of_threads(self) -> float:
        """Return the factor by which learner and replay manager, two busy threads, slow each other down.

        It is taken from learner and actors. If acting is short next to the steps (`LEAST_ACTING`), what it adds to
        these is lost in their noise, and nothing is known of the factor, so that it is 1.
        """
        if self.acting_s < LEAST_ACTING * self.alone_s:
            return 1.0
        return min(MOST_SLOWED, self.factor)

    def slow_down(self, seconds: dict[str, float]) -> None:
        """Lengthen the terms of an iteration that run in parallel, and add what the host does for the actors.

        What is left of the longer one of steps and acting runs alone.

        Args:
            seconds: seconds of each term; changed.
        """
        here = [term for term in ("step", "learner", JOINT, "update") if term in seconds]
        shorter_s = min(sum(seconds[term] for term in here), seconds["actor"])
        if "step" in seconds:
            added_s = (self.factor - 1) * shorter_s
            seconds["step"] += added_s
        else:  # learner and replay manager are two threads, and nothing runs alone
            factor = self.factor_of_threads
            added_s = (factor - 1) * shorter_s
            for term in here:
                seconds[term] *= factor
        seconds["actor"] += added_s
        # Behind longer steps the actors' work is hidden, but not the host's part of it.
        if seconds.get("step", seconds.get("learner", 0.0)) > seconds["actor"]:
            seconds["loop"] += self.handing_s


def _least_s(seconds: MappingABC[str, float], cores: int, *, threads: bool) -> float:
    """Return the least seconds of an iteration on a number of cores, of which each does one thing at a time.

    A learner's threads count as one, since its caller does the parts of those that have no core.

    Args:
        seconds: seconds of each term.
        cores: cores of the host.
        threads: whether learner and replay manager are two threads. The manager, which waits for the learner, is then
            taken to share the cores that the learner leaves to the actors, where the system's scheduler put it.
    """
    all_s = sum(seconds.values()) / cores
    if not threads or cores == 1:
        return all_s
    return max(all_s, sum(seconds.get(term, 0.0) for term in (JOINT, "update", "actor")) / (cores - 1))


def _fuses(table: PerformanceTable, mapping: Mapping) -> bool:
    """Whether whole gradient steps are one call."""
    learner = mapping.learner
    at_home = mapping.storage == CPU and learner.in_floats == mapping.rmm
    return at_home and ("fused_round.steps", learner) in table


def _in_turn(table: PerformanceTable, problem: Problem, mapping: Mapping, *, apart: bool) -> _Composed:
    """Return a round of the fused loop, or of the strict loop, in which every part is a separate call (`apart`)."""
    learner, rmm, steps = mapping.learner, mapping.rmm, problem.round_gradient_steps
    if not apart and _fuses(table, mapping):
        return _Composed(
            {
                "actor": (("fused_round.collect", learner), 1),
                "insert": (("fused_round.insert", rmm), 1),
                "step": (("fused_round.steps", learner), 1),
                "loop": (("fused_round.runtime", CPU), 1),
            },
            steps,
        )
    rounds = _rounds_of(mapping)
    apart = rounds == HOSTED and (apart or mapping.storage != CPU)  # apart from a storage on a board, too
    replay = "strict_round" if apart and ("strict_round.sample", rmm) in table else rounds
    beside = replay if (f"{replay}.learn", learner) in table else rounds
    return _Composed(
        {
            "actor": ((f"{beside}.collect", learner), 1),
            "insert": ((f"{replay}.insert", rmm), 1),
            JOINT: ((f"{replay}.sample", rmm), steps),
            "learner": ((f"{beside}.learn", learner), steps),
            "update": ((f"{replay}.update", rmm), steps),
            "loop": (("round.runtime", CPU), 1),
        },
        steps,
        disturbed=_disturbed(table, mapping),
    )


def _rounds_of(mapping: Mapping) -> str:
    """Return the rounds in which a mapping's parts were profiled; with the storage on a device, together."""
    storage = mapping.storage
    if storage.backend not in STORING_DEVICES:
        return HOSTED
    return f"{storage}_round" if mapping.learner.device == storage.device else f"{storage}_apart_round"


_SLOWED_BY = {
    "actor": ("beside_replay.collect",),
    "learner": ("beside_replay.learn",),
    "insert": ("beside_learner.insert",),
    JOINT: ("beside_learner.sample",),
    "update": ("beside_learner.update",),
    "loop": ("beside_learner.runtime", "beside_replay.runtime"),
}
"""The native parts that show the learner's effect on the replay and the replay's effect on the learner, by term.
"""


def _disturbed(table: PerformanceTable, mapping: Mapping) -> dict[str, _Disturbed]:
    """Return the terms of a mapping that run with a part that is not native, unless all were profiled together."""
    found: dict[str, _Disturbed] = {}
    if _rounds_of(mapping) != HOSTED:
        return found
    for term, names in _SLOWED_BY.items():
        partners = []
        part = names[0].partition(".")[2]
        for name in names:
            other = mapping.rmm if name.startswith("beside_replay") else mapping.learner
            emptied = (f"cold_round.{part}", CPU if term == "loop" else NATIVE)
            partner = _Partner((name, other), (name, NATIVE), emptied)
            if other != NATIVE and all(cell in table for cell in (partner.beside, partner.alone, emptied)):
                partners.append(partner)
        own = mapping.learner if term in ("actor", "learner") else mapping.rmm
        cold = None if own == NATIVE or term == "loop" else (f"cold_round.{part}", own)
        # A simulated device has no such part; next to it all parts are already cold.
        if partners and (cold is None or cold in table):
            found[term] = _Disturbed(tuple(partners), cold)
    return found


def _overlapped(
    table: PerformanceTable, problem: Problem, mapping: Mapping, *, relaxed: bool = False
) -> _Composed:
    """Return an iteration with concurrent actors: in a process, or in virtual time on a core of their own.

    In the relaxed loop, replay manager and learner have a core each, so that neither displaces the other's data,
    unless the manager is a Python thread and takes turns with the learner.
    """
    learner, rmm = mapping.learner, mapping.rmm
    rounds_of = _rounds_of(mapping)
    simulated = _simulated(table, "round.learn", learner) or _simulated(table, "round.sample", rmm)
    rounds = problem.overlapped_rounds(simulated)
    steps = rounds * problem.round_gradient_steps
    insertion = "overlapped_round" if rounds_of == HOSTED else f"{mapping.storage}_overlapped_round"
    calls: Calls = {"insert": ((f"{insertion}.insert", rmm), 1)}
    if calls["insert"][0] not in table:
        calls["insert"] = ((f"{rounds_of}.insert", rmm), rounds)
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
    threads = relaxed and _fuses(table, mapping) and ("relaxed_round.learn", learner) in table
    locked = relaxed and not threads and not simulated
    if threads:
        calls |= {
            JOINT: (("relaxed_round.sample", rmm), steps),
            "learner": (("relaxed_round.learn", learner), steps),
            "update": (("relaxed_round.update", rmm), steps),
            "loop": (("fused_round.runtime", CPU), 1),
        }
    elif not relaxed and _fuses(table, mapping):
        calls |= {"step": (("overlapped_round.steps", learner), 1), "loop": (("fused_round.runtime", CPU), 1)}
    else:
        on_board = rounds_of == HOSTED and mapping.storage != CPU and ("strict_round.sample", rmm) in table
        replay = "strict_round" if on_board else rounds_of
        calls |= {
            JOINT: ((f"{replay}.sample", rmm), steps),
            "learner": ((f"{rounds_of}.learn", learner), steps),
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
    slowed = _disturbed(table, mapping) if manager == HOST or simulated else {}
    disturbed = {term: slowed[term] for term in calls if term in slowed and term != "actor"}
    return _Composed(calls, steps, manager, disturbed=disturbed)


def _with_simulated(
    made: _Composed, table: PerformanceTable, problem: Problem, platform: Platform, mapping: Mapping
) -> _Composed:
    """Add the times of links to and from simulated devices, and separate gathering by a replay or a storage there."""
    calls, slowed = dict(made.calls), dict(made.disturbed)
    learner = mapping.learner if _simulated(table, "round.learn", mapping.learner) else CPU
    rmm = mapping.rmm if _simulated(table, "round.sample", mapping.rmm) else CPU
    storage = mapping.storage
    if learner == rmm == CPU:
        return made

    def link_s(source: Target, target: Target, sent_bytes: int) -> float:
        if source == target == CPU:
            return 0.0  # included in the measured time
        return transfer_s(platform, source.device, target.device, sent_bytes)

    batch, batch_bytes = problem.batch_size, problem.batch_size * problem.item_bytes
    transfers_s = {"learner": link_s(storage, learner, batch_bytes)}
    if learner != CPU:
        transfers_s["publish"] = link_s(learner, CPU, problem.acting_words * WORD_BYTES)
        slowed.pop("learner", None)
    if not problem.on_policy:
        rounds = made.gradient_steps // problem.round_gradient_steps
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
            transfers_s["gather"] += link_s(storage, storage, batch_bytes)
            gather = "strict_round.gather" if ("strict_round.gather", CPU) in table else "round.gather"
            sampled_s, gathered_s = (table.time_s(*cell) for cell in (calls[JOINT][0], (gather, CPU)))
            transfers_s[JOINT] = -min(sampled_s, gathered_s)
        transfers_s["learner"] += link_s(rmm, learner, batch * WEIGHT_BYTES)
        transfers_s["update"] = link_s(learner, rmm, batch * PRIORITY_BYTES)
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
            transfers_s["gather"] += link_s(storage, storage, batch_bytes)
    if learner != CPU and rmm != CPU:
        _among_simulated(calls, slowed, table)
    return replace(made, calls=calls, transfers_s=transfers_s, disturbed=slowed)


def _among_simulated(calls: Calls, slowed: dict[str, _Disturbed], table: PerformanceTable) -> None:
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


def _simulated(table: PerformanceTable, primitive: str, target: Target) -> bool:
    if (primitive, target) not in table:
        return False
    return table.entry(primitive, target).provenance is not Provenance.MEASURED


def composed_candidates(table: PerformanceTable) -> list[Mapping]:
    """Return every mapping (devices of learner, replay management and storage) whose calls in the loop were timed.

    On-policy there is no replay, so the target of the replay management is always `native`.

    Args:
        table: times of the calls, by backend and device.
    """
    managers = table.targets("round.sample") or [Target("native")]
    found = [
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
    return found + stored


def _boards(table: PerformanceTable, learner: Target, rmm: Target) -> list[Target]:
    """Return the simulated devices of replay management and learner, which can hold the storage."""
    parts = (("round.sample", rmm), ("round.learn", learner))
    return [target for primitive, target in parts if _simulated(table, primitive, target)]


def _on_policy(table: PerformanceTable, problem: Problem, mapping: Mapping) -> _Composed:
    steps = problem.epochs * (problem.trajectory_length * problem.actors // problem.batch_size)
    collect: tuple[Cell, float] = (("round.collect", mapping.learner), problem.trajectory_length)
    if ("iteration.collect", mapping.learner) in table:
        collect = (("iteration.collect", mapping.learner), 1)
    calls: Calls = {
        "actor": collect,
        "prepare": (("round.prepare", CPU), 1),
        "learner": (("round.learn", mapping.learner), steps),
    }
    return _Composed(calls, steps)


def _strategy(loop: Loop) -> Exhaustive:
    model = ComposedLoop(loop)
    return Exhaustive(model.name, model, composed_candidates)


STRATEGIES = (_strategy(Loop.FUSED),)
ONLY_VALIDATED = tuple(map(_strategy, (Loop.STRICT, Loop.OVERLAPPED, Loop.RELAXED)))
