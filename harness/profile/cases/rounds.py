"""Rounds of training, timed in the parts that `harness.mapping.strategies.composed_loop` combines.

The rounds are those of the training loop itself (`harness.loop.training_loop`), under a clock that records
(`harness.loop.recorder`). A part is timed at its place in the loop, between its predecessor and its
successor: if it were called repeatedly, its code and data would be warmer in the caches than in a loop. In short
rounds, timing one part slows down the next, so each part is timed in rounds of its own (`Round.run`).

Not every mapping is run: every learner runs with the native replay management, and every replay management with the
native learner. So the number of timed loops grows with the sum of the numbers of learners and replays, not with
their product. Both run once more with the caches emptied before each part. Between groups of parts, the calibration
kernel of `harness.measure.pace` measures the core's speed. A part on a simulated device is timed by the device's own
clock.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from time import perf_counter
from typing import cast

import numpy as np

from placerl.harness.loop.recorder import Recorder
from placerl.harness.loop.schedule import Fusion
from placerl.harness.loop.training_loop import Shape, Traffic, TrainingLoop, Units
from placerl.harness.mapping import Mapping, Problem, Target
from placerl.harness.mapping.target import CPU, NATIVE
from placerl.harness.measure.pace import Piece
from placerl.harness.measure.protocol import Case
from placerl.harness.pieces.base import PrimitiveCase
from placerl.harness.pieces.learners import LATE, learner_targets
from placerl.harness.pieces.storage import storing_devices
from placerl.harness.profile.cases.caches import Sweep
from placerl.harness.profile.cases.native_rounds import native_cases
from placerl.harness.profile.cases.round_checks import check_collect, check_learn, check_replay, check_steps
from placerl.harness.profile.cases.runtime_rounds import IN_TURNS, empty_training
from placerl.harness.profile.cases.shared_parts import SharedParts, managers
from placerl.harness.runtime.actors.actor import Actor
from placerl.harness.runtime.actors.in_process import Actors, InlineActors
from placerl.harness.runtime.clock import simulated_s
from placerl.harness.runtime.compose import actors_of
from placerl.harness.runtime.fusions import fuses_rounds, fusions
from placerl.harness.runtime.training import Training
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import columns_of
from placerl.primitives.learner import Learner
from placerl.primitives.quantization.precision import FLOAT_32
from placerl.primitives.replay import FieldSpec

_RUNTIME, _NO_PART = "runtime", ""

SHORT_ROUND_S = 500e-6
"""Rounds shorter than this, seconds, have each part timed in rounds of its own.

Recording a part takes a microsecond, and slows down what follows. On a Xeon, where a round of CartPole takes 24 us, it
was predicted 20% too slow when all parts were timed in the same rounds, 6% when each had rounds of its own, and 2 to
4% when only some of these were timed.
"""
STRETCH_S = 1e-3
"""Length of the consecutive rounds in which one part is timed, seconds."""
TIMED_EVERY = 4
"""One in so many of these rounds is timed; the others leave the caches as a training does."""
STEP_PARTS = ("sample", "gather", "learn", "update")
"""Parts of a round that each gradient step calls by itself; in the part "steps" all of a round's are one call."""
LEARNT, MANAGED = ("learn", "steps"), ("insert", "sample", "update")
"""Parts of a round that the learner computes, and those that replay management and storage do."""
FIRST_ROUNDS = 5
"""Rounds whose shortest tells whether rounds are short: the first allocate memory."""


@dataclass
class Round:
    """The training loop of one mapping, with a clock that records the time of each part.

    Attributes:
        clock: the loop's clock, with the seconds of each part.
        runtime: a training whose parts do nothing; its gradient steps show the time of the runtime itself.
        gradient_steps: gradient steps per round.
        cold: whether the caches are emptied before each part, so that rounds are never short.
    """

    loop: TrainingLoop
    clock: Recorder
    runtime: Training
    gradient_steps: int
    cold: bool = False
    _parts: list[str] = field(default_factory=list)
    # Rounds per call in which one part is timed alone; 0: all parts in the same round; None: not known yet.
    _rounds_apart: int | None = None

    def run(self) -> None:
        """Run rounds of the loop, timed in parts, and gradient steps of a training with parts that do nothing.

        A long round is run once, and then the other training takes as many gradient steps. If rounds are short,
        several are run for each part, and only this part is timed in some of them, so that the calls before it are
        those of training. The runtime's own code is then as warm as in training, where it runs between the parts.
        """
        if self._rounds_apart is None:
            least_s = inf if self.cold else min(self._whole_round() for _ in range(FIRST_ROUNDS))
            self._rounds_apart = ceil(STRETCH_S / least_s / TIMED_EVERY) if least_s < SHORT_ROUND_S else 0
            self._parts = [part for part in self.clock.taken() if part != _RUNTIME]
        if not self._rounds_apart:
            self._whole_round()
            return
        self.clock.open(self._rounds_apart)
        for part in self._parts:
            self._timed_rounds(part)
        self.runtime.take((TIMED_EVERY - 1) * self._rounds_apart * self.gradient_steps)
        self._runtime_alone(self._rounds_apart)

    def _timed_rounds(self, part: str) -> None:
        """Run the rounds in which one part is timed."""
        clock, run = self.clock, self.loop.round
        for _ in range(self._rounds_apart or 0):
            clock.only = _NO_PART
            for _ in range(TIMED_EVERY - 1):
                run()
            clock.only = part
            run()
        clock.only = None

    def _whole_round(self) -> float:
        """Run one round with all parts timed, and a training whose parts do nothing; return the round's seconds."""
        self.clock.open()
        start_s = perf_counter()
        self.loop.round()
        took_s = perf_counter() - start_s
        self._runtime_alone()
        return took_s

    def _runtime_alone(self, rounds: int = 1) -> None:
        self.clock.timed(_RUNTIME, self.runtime.take, rounds * self.gradient_steps)

    def taken(self) -> dict[str, list[Piece]]:
        """Return the timed pieces of each part since the last call of this method, in a dict from the part's name.

        A call of a part of every gradient step (`STEP_PARTS`) is one step's; of the others it is a round's.
        """
        return {
            part: [piece._replace(calls=piece.calls * self.gradient_steps) for piece in pieces]
            if part in STEP_PARTS
            else pieces
            for part, pieces in self.clock.taken().items()
        }


@dataclass(frozen=True)
class Variant:
    """The way in which timed rounds of training differ from the strict loop, where all parts take turns in one process.

    Attributes:
        fusion: which calls are one native call: `NONE` keeps sum tree and storage separate, `STEP` also includes the
            learner's step; otherwise tree and storage are fused if possible.
        rounds: number of rounds that are timed as one; an iteration of the overlapped loop contains several.
        gradient_steps: gradient steps in the timed rounds; None: the number that belongs to their vector steps.
        overlapped: whether the parts have the order of the overlapped loop, where actors run in parallel with the rest.
        acting: creates a learner's actors, in another thread or process, which get copies of its weights; None: an
            actor in the learner's thread (`actor_for`).
        cold: whether the caches are emptied before each part.
        beside: whether the parts are timed while the actors act, in the overlapped loop.
    """

    fusion: Fusion | None = None
    rounds: int = 1
    gradient_steps: int | None = None
    overlapped: bool = False
    acting: Callable[[Learner], Actors] | None = None
    cold: bool = False
    beside: bool = False
    storage: Target = CPU


STRICT, COLD = Variant(), Variant(cold=True)


class Sequences:
    """Creates the benchmark cases that time rounds of training in parts.

    Args:
        workload: a workload whose replay fits the memory several times.
    """

    def __init__(self, workload: Workload, problem: Problem, parts: SharedParts) -> None:
        self.workload, self.problem, self.parts = workload, problem, parts

    def case(self, name: str, learner: Target, manager: Target, variant: Variant = STRICT) -> Case[Round]:
        """Return the benchmark case that times rounds of training with one mapping, in parts.

        Args:
            variant: how the rounds differ from those of the strict loop.
        """
        workload, problem = self.workload, self.problem

        def check(timed_round: Round) -> None:
            units = timed_round.loop.units
            sample = units.replay.sample(problem.batch_size, np.random.default_rng(1))
            check_collect(units.acting.collect)
            check_replay(workload, units.replay, sample)
            if units.steps is not None:
                check_steps(workload, units.replay, units.learner, units.steps)
            else:
                check_learn(workload, units.learner, sample)

        return Case(
            name=name,
            setup=lambda: self._round(learner, manager, variant),
            check=check,
            inputs=lambda timed_round, rng: None,
            call=lambda timed_round, _: timed_round.run(),
            close=lambda timed_round: cast(Actors, timed_round.loop.units.acting).close(),
            parts=Round.taken,
            empties_caches=variant.cold,
        )

    def _round(self, learner: Target, manager: Target, variant: Variant) -> Round:
        workload, problem, parts = self.workload, self.problem, self.parts
        fused = variant.fusion is Fusion.STEP
        shape = Shape(
            variant.rounds * problem.round_vector_steps,
            variant.gradient_steps or variant.rounds * problem.round_gradient_steps,
            problem.batch_size,
            variant.overlapped,
        )
        trainee, replay = parts.learner(learner), parts.replay(manager, variant.fusion, variant.storage)
        learner_s, replay_s = simulated_s(trainee), simulated_s(replay)
        acting: Actors
        if variant.acting:
            acting = variant.acting(trainee)
            weights_bytes = sum(value.nbytes for value in trainee.parameters().values())
        else:
            actor = actor_for(workload, shape.vector_steps, columns_of(workload))
            acting, weights_bytes = InlineActors(actor, trainee), 0
        steps = parts.steps(learner, manager) if fused else None
        units = Units(acting, replay.storage, replay, trainee, np.random.default_rng(2), steps)
        clocks = {"learn": learner_s} if learner_s else {}
        if replay_s:
            clocks |= dict.fromkeys(MANAGED, replay_s)
        elsewhere = ((LEARNT, learner), (MANAGED, manager), (MANAGED, variant.storage))
        on_devices = [part for parts, target in elsewhere if not target.on_host for part in parts]
        sweep = Sweep() if variant.cold else None
        clock = Recorder(clocks, sweep, beside=variant.beside, elsewhere=on_devices)
        apart = replay_s is not None or variant.fusion is Fusion.NONE
        traffic = Traffic(weights_bytes=weights_bytes, storage_apart=apart)
        runtime = empty_training(workload, problem, Fusion.STEP if fused else Fusion.NONE)
        loop = TrainingLoop(clock, units, shape, traffic)
        return Round(loop, clock, runtime, shape.gradient_steps, variant.cold)


def round_cases(
    workload: Workload,
    problem: Problem,
    parts: SharedParts | None = None,
    precisions: Sequence[str] = (FLOAT_32,),
) -> Iterator[PrimitiveCase]:
    """Yield the benchmark cases whose times predict off-policy training: each part of a round, on each backend.

    Parts are fused as the runtime fuses them by default.

    Args:
        workload: a workload whose replay fits the memory several times.
        parts: learners and replays shared with other cases; None creates them.
    """
    sequences = Sequences(workload, problem, parts or SharedParts(workload, problem))
    rows, batch = problem.round_vector_steps * problem.actors, problem.batch_size
    for target in learner_targets(precisions):
        case = sequences.case(f"round of learner {target}", target, NATIVE)
        yield PrimitiveCase("round.collect", target, rows, case, "collect")
        yield PrimitiveCase("round.learn", target, batch, case, "learn")
        yield from beside_learner(target, case, rows, batch)
        if target == NATIVE:
            yield PrimitiveCase("round.runtime", CPU, 1, case, "runtime")
        case = sequences.case(f"cold round of learner {target}", target, NATIVE, COLD)
        yield PrimitiveCase("cold_round.collect", target, rows, case, "collect")
        yield PrimitiveCase("cold_round.learn", target, batch, case, "learn")
        if target == NATIVE:
            yield from _cold_replay(target, case, rows, batch)
            yield PrimitiveCase("cold_round.runtime", CPU, 1, case, "runtime")
    for target in managers(workload):
        case = sequences.case(f"round of replay {target}", NATIVE, target)
        yield PrimitiveCase("round.insert", target, rows, case, "insert")
        yield PrimitiveCase("round.sample", target, batch, case, "sample")
        yield PrimitiveCase("round.update", target, batch, case, "update")
        yield from beside_replay(target, case, rows, batch)
        if target != NATIVE:
            case = sequences.case(f"cold round of replay {target}", NATIVE, target, COLD)
            yield from _cold_replay(target, case, rows, batch)
    for target in learner_targets(precisions):
        if Fusion.STEP not in fusions(workload, Mapping(target, NATIVE, CPU), 0):
            continue
        case = sequences.case(f"fused round {target}", target, NATIVE, Variant(Fusion.STEP))
        yield PrimitiveCase("fused_round.collect", target, rows, case, "collect")
        yield PrimitiveCase("fused_round.steps", target, batch, case, "steps")
        if target == NATIVE:
            yield PrimitiveCase("fused_round.insert", NATIVE, rows, case, "insert")
            yield PrimitiveCase("fused_round.runtime", CPU, 1, case, "runtime")
    whole = [
        target
        for target in learner_targets(precisions)
        if fuses_rounds(workload, Mapping(target, NATIVE, CPU), IN_TURNS)
    ]
    yield from native_cases(workload, problem, sequences.parts, whole)
    yield from _stored_rounds(sequences, precisions, rows, batch)


def at_storage(targets: Iterable[Target], storage: Target) -> list[Target]:
    """Return the targets (backends with devices) that are on the same device as a storage.

    A learner on the storage's device reads its batches in place.
    """
    return [target for target in targets if target.device == storage.device]


def _stored_rounds(
    sequences: Sequences, precisions: Sequence[str], rows: int, batch: int
) -> Iterator[PrimitiveCase]:
    """Yield the rounds with the storage on a device, and on it the learner, or only the replay management."""
    learners, rmms = learner_targets(precisions), managers(sequences.workload)
    for storage in storing_devices():
        there, rmms_there = at_storage(learners, storage), at_storage(rmms, storage)
        elsewhere = [learner for learner in learners if learner not in there]
        yield from _stored(sequences, storage, f"{storage}_round", there, rmms, (rows, batch))
        yield from _stored(sequences, storage, f"{storage}_apart_round", elsewhere, rmms_there, (rows, batch))


def _stored(
    sequences: Sequences,
    storage: Target,
    primitive: str,
    learners: Sequence[Target],
    rmms: Sequence[Target],
    items: tuple[int, int],
) -> Iterator[PrimitiveCase]:
    """Yield each learner's parts with the first replay management, and each replay management's with the first learner.

    Args:
        primitive: prefix of the primitives' names.
        items: rows that a round inserts, and the batch size.
    """
    rows, batch = items
    for learner in learners:
        for manager in rmms if learner == learners[0] else rmms[:1]:
            name = f"round of {learner}-{manager}-{storage}"
            case = sequences.case(name, learner, manager, Variant(storage=storage))
            if manager == rmms[0]:
                yield PrimitiveCase(f"{primitive}.collect", learner, rows, case, "collect")
                yield PrimitiveCase(f"{primitive}.learn", learner, batch, case, "learn")
            if learner == learners[0]:
                for part, count in (("insert", rows), ("sample", batch), ("update", batch)):
                    yield PrimitiveCase(f"{primitive}.{part}", manager, count, case, part)


def _cold_replay(target: Target, case: Case[Round], rows: int, batch: int) -> Iterator[PrimitiveCase]:
    for part, items in (("insert", rows), ("sample", batch), ("update", batch)):
        yield PrimitiveCase(f"cold_round.{part}", target, items, case, part)


def beside_learner(target: Target, case: Case[Round], rows: int, batch: int) -> Iterator[PrimitiveCase]:
    """Yield the benchmark cases of the native replay's calls and of the empty loop, in rounds with another learner.

    Compared with the same calls next to the native learner, they show how much a learner slows down its neighbours.
    The empty loop is a training whose parts do nothing.
    """
    for part, items in (("insert", rows), ("sample", batch), ("update", batch), ("runtime", 1)):
        yield PrimitiveCase(f"beside_learner.{part}", target, items, case, part)


def beside_replay(target: Target, case: Case[Round], rows: int, batch: int) -> Iterator[PrimitiveCase]:
    """Yield the benchmark cases of the native learner's calls and of the empty loop, in rounds with another replay.

    Compared with the same calls next to the native replay, they show how much a replay slows down its neighbours.
    The empty loop is a training whose parts do nothing.
    """
    for part, items in (("collect", rows), ("learn", batch), ("runtime", 1)):
        yield PrimitiveCase(f"beside_replay.{part}", target, items, case, part)


def actor_for(
    workload: Workload, vector_steps: int, fields: dict[str, FieldSpec], *, clip: bool = False
) -> Actor:
    """Return an actor whose exploration rate already has its final value, as late in training.

    Args:
        vector_steps: most vector steps per call.
        fields: columns of a transition, with shape and dtype.
        clip: whether the policy's continuous actions may be outside [-1, 1] and are clipped for the environments.
    """
    environment_seed, exploration_seed = np.random.SeedSequence(0).spawn(2)
    room = max(vector_steps, 2)  # the check takes two
    actor = actors_of(workload, environment_seed, exploration_seed, fields, room, clip=clip).build()
    actor.environment_steps = LATE
    return actor
