"""Rounds of training, timed in the parts that `harness.mapping.strategies.composed_loop` puts together.

A part is timed where it stands in the loop, after the part before it and ahead of the next: called alone again and
again, its code and its data would be warmer than a loop ever finds them. So that the number of sequences grows with
the sum, not the product, of the targets, every learner runs beside the native replay management, and every replay
management beside the native learner; both once more with the caches emptied before each part. Batches, indices and TD
errors are handed on as in the loop. Between the parts, the calibration kernel of `harness.measure.pace` shows at which
speed the core runs. A part on a simulated device is timed by the device's own clock.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, cast

import numpy as np

from harness.mapping import Mapping, Problem, Target
from harness.measure.pace import Bracket, Pace, Piece
from harness.measure.protocol import Case
from harness.profile.cases.base import PrimitiveCase
from harness.profile.cases.caches import Sweep
from harness.profile.cases.learners import LATE, learner_targets
from harness.profile.cases.round_checks import check_collect, check_learn, check_replay, check_steps
from harness.profile.cases.runtime_rounds import empty_training
from harness.profile.cases.shared_parts import SharedParts, managers
from harness.runtime.actors.actor import Actor
from harness.runtime.clock import simulated_s
from harness.runtime.compose import Fusion, TimedStorage, actors_of, fusions
from harness.runtime.training import Training
from harness.workloads import Workload
from harness.workloads.task import columns_of
from primitives.learner import Learner
from primitives.learner.fused import FusedSteps
from primitives.quantization.precision import FLOAT_32
from primitives.replay import FieldSpec
from primitives.replay.base import Replay, Sample

NATIVE, CPU = Target("native"), Target("cpu")


@dataclass
class Round:
    """The parts of one mapping's loop, and the seconds that each has taken.

    Attributes:
        vector_steps, gradient_steps: of a round.
        actor, learner, replay: at work.
        out: where batches go.
        runtime: a training whose parts do nothing.
        steps: fused gradient steps, or None.
        publish: hands the weights to actors elsewhere, or None.
        sweep: empties the caches before each part, or None.
        rng: source of the random numbers of sampling.
        occurrences: of each part since they were last taken: seconds, and the core's pace.
    """

    vector_steps: int
    gradient_steps: int
    actor: Any
    learner: Learner
    replay: Replay
    out: Sample
    runtime: Training
    steps: FusedSteps | None = None
    publish: Callable[[], None] | None = None
    sweep: Sweep | None = None
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(2))
    occurrences: defaultdict[str, list[tuple[float, Pace]]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        learner_s, replay_s = simulated_s(self.learner), simulated_s(self.replay)
        self._clocks = {
            "learn": learner_s or perf_counter,
            **dict.fromkeys(("insert", "sample", "update"), replay_s or perf_counter),
        }
        self._storage = cast(TimedStorage, self.replay.storage)  # as `storage_of` makes them
        self._storage_apart = replay_s is not None
        self._bracket, self._pace, self._runs = Bracket(), Pace(), 0
        self._clock_s = float("inf")  # that one reading of the clock takes

    def _timed(self, part: str, work: Callable[[], Any]) -> Any:
        clock = self._clocks.get(part, perf_counter)
        if self.sweep:
            self.sweep()
            self._bracket.skip()
        begin_s = clock()
        result = work()
        seconds = clock() - begin_s
        self._pace = self._bracket.close()
        # A simulated device's seconds do not depend on the core.
        self.occurrences[part].append((seconds, self._pace if clock is perf_counter else Pace()))
        return result

    def _within(self) -> Pace:
        """Of a piece within the last one: where in it the thread waited for a core is not known."""
        return self._pace._replace(waited_s=0.0)

    def run(self) -> None:
        """One round, in parts; with it, how long one reading of the clock takes."""
        replay, learner = self.replay, self.learner
        self._runs += 1
        self._bracket.open()
        self._timed("reading", _nothing)
        transitions = self._timed("collect", lambda: self.actor.collect(self.vector_steps, learner.explore))
        written_s = self._storage.write_s
        self._timed("insert", lambda: replay.insert(transitions))
        if self._storage_apart:
            self.occurrences["write"].append((self._storage.write_s - written_s, self._within()))
        if self.publish is not None:
            self._timed("publish", self.publish)
        if (steps := self.steps) is not None:
            self._timed("steps", lambda: steps.run(self.gradient_steps, self.rng))
        else:
            for _ in range(self.gradient_steps):
                self._gradient_step()
        self._timed("runtime", lambda: self.runtime.take(self.gradient_steps))

    def _gradient_step(self) -> None:
        replay, gathered_s = self.replay, self._storage.gather_s
        sample = self._timed("sample", lambda: replay.sample(len(self.out.indices), self.rng, out=self.out))
        if self._storage_apart:
            self.occurrences["gather"].append((self._storage.gather_s - gathered_s, self._within()))
        outcome = self._timed("learn", lambda: self.learner.step(sample.batch, sample.weights))
        self._timed("update", lambda: replay.update_priorities(sample.indices, outcome.td_errors))

    def taken(self) -> dict[str, list[Piece]]:
        """The pieces of each part since the last call, less what reading the clock took."""
        found, self.occurrences = self.occurrences, defaultdict(list)
        runs, self._runs = self._runs, 0
        told = [seconds for seconds, _ in found.pop("reading", [])]
        # The least of all so far: one that the scheduler interrupted takes milliseconds.
        self._clock_s = reading_s = min([self._clock_s, *told])
        pieces = {}
        for part, occurrences in found.items():
            calls = runs / len(occurrences)
            # The storage and a simulated device sum up seconds of their own.
            less_s = reading_s if self._read_by_host(part) else 0.0
            pieces[part] = [Piece(seconds - less_s, calls, pace) for seconds, pace in occurrences]
        return pieces

    def _read_by_host(self, part: str) -> bool:
        return part not in ("write", "gather") and self._clocks.get(part, perf_counter) is perf_counter


def _nothing() -> None: ...


class Sequences:
    """Makes the cases of rounds.

    Args:
        workload: with a replay that fits the memory several times.
        problem: what the models know of the workload.
        parts: learners and replays, shared with other cases.
    """

    def __init__(self, workload: Workload, problem: Problem, parts: SharedParts) -> None:
        self.workload, self.problem, self.parts = workload, problem, parts

    def case(
        self,
        name: str,
        learner: Target,
        manager: Target,
        *,
        fusion: Fusion | None = None,
        rounds: int = 1,
        gradient_steps: int | None = None,
        actor: Callable[[Learner], Any] | None = None,
        publish: Callable[[Any, Learner], Callable[[], None]] | None = None,
        cold: bool = False,
    ) -> Case[Round]:
        """Rounds of one mapping.

        Args:
            name: of the case.
            learner, manager: where they run.
            fusion: as `SharedParts.replay` takes it; `STEP` fuses the learner too.
            rounds: in one, as overlapped iterations have them.
            gradient_steps: of a round; as many as belong to its vector steps by default.
            actor: makes what collects, for a learner; `actor_for` by default.
            publish: makes what hands the weights to actors elsewhere, from the actor and the learner.
            cold: empty the caches before each part.
        """
        workload, problem, parts = self.workload, self.problem, self.parts
        fused = fusion is Fusion.STEP
        vector_steps = rounds * problem.round_vector_steps
        steps = gradient_steps or rounds * problem.round_gradient_steps

        def setup() -> Round:
            trainee, replay = parts.learner(learner), parts.replay(manager, fusion)
            made = actor(trainee) if actor else actor_for(workload, vector_steps, columns_of(workload))
            return Round(
                vector_steps,
                steps,
                made,
                trainee,
                replay,
                replay.sample(problem.batch_size, np.random.default_rng(1)),
                empty_training(workload, problem, Fusion.STEP if fused else Fusion.NONE),
                parts.steps(learner, manager) if fused else None,
                publish(made, trainee) if publish else None,
                Sweep() if cold else None,
            )

        def check(made: Round) -> None:
            check_collect(made.actor, made.learner)
            check_replay(workload, made.replay, made.out)
            if made.steps is not None:
                check_steps(workload, made.replay, made.learner, made.steps)
            else:
                check_learn(workload, made.learner, made.out)

        return Case(
            name=name,
            setup=setup,
            check=check,
            inputs=lambda made, rng: None,
            call=lambda made, _: made.run(),
            close=lambda made: made.actor.close(),
            parts=Round.taken,
            empties_caches=cold,
        )


def round_cases(
    workload: Workload,
    problem: Problem,
    parts: SharedParts | None = None,
    precisions: Sequence[str] = (FLOAT_32,),
) -> Iterator[PrimitiveCase]:
    """Every sequence that off-policy training is predicted from, as the runtime fuses it by default.

    Args:
        workload: with a replay that fits the memory several times.
        problem: what the models know of the workload.
        parts: learners and replays, where other cases have them too.
    """
    made = Sequences(workload, problem, parts or SharedParts(workload, problem))
    rows, batch = problem.round_vector_steps * problem.actors, problem.batch_size
    for target in learner_targets(precisions):
        case = made.case(f"round of learner {target}", target, NATIVE)
        yield PrimitiveCase("round.collect", target, rows, case, "collect")
        yield PrimitiveCase("round.learn", target, batch, case, "learn")
        yield from beside_learner(target, case, rows, batch)
        if target == NATIVE:
            yield PrimitiveCase("round.runtime", CPU, 1, case, "runtime")
        case = made.case(f"cold round of learner {target}", target, NATIVE, cold=True)
        yield PrimitiveCase("cold_round.collect", target, rows, case, "collect")
        yield PrimitiveCase("cold_round.learn", target, batch, case, "learn")
        if target == NATIVE:
            yield from _cold_replay(target, case, rows, batch)
            yield PrimitiveCase("cold_round.runtime", CPU, 1, case, "runtime")
    for target in managers(workload):
        case = made.case(f"round of replay {target}", NATIVE, target)
        yield PrimitiveCase("round.insert", target, rows, case, "insert")
        yield PrimitiveCase("round.sample", target, batch, case, "sample")
        yield PrimitiveCase("round.update", target, batch, case, "update")
        yield from beside_replay(target, case, rows, batch)
        if target != NATIVE:
            case = made.case(f"cold round of replay {target}", NATIVE, target, cold=True)
            yield from _cold_replay(target, case, rows, batch)
    if Fusion.STEP in fusions(workload, Mapping(NATIVE, NATIVE, CPU), 0):
        case = made.case("fused round native", NATIVE, NATIVE, fusion=Fusion.STEP)
        yield PrimitiveCase("fused_round.collect", NATIVE, rows, case, "collect")
        yield PrimitiveCase("fused_round.insert", NATIVE, rows, case, "insert")
        yield PrimitiveCase("fused_round.steps", NATIVE, batch, case, "steps")
        yield PrimitiveCase("fused_round.runtime", CPU, 1, case, "runtime")


def _cold_replay(target: Target, case: Case[Round], rows: int, batch: int) -> Iterator[PrimitiveCase]:
    for part, items in (("insert", rows), ("sample", batch), ("update", batch)):
        yield PrimitiveCase(f"cold_round.{part}", target, items, case, part)


def beside_learner(target: Target, case: Case[Round], rows: int, batch: int) -> Iterator[PrimitiveCase]:
    """The native replay's parts beside a learner: what it adds to them shows against the native one."""
    for part, items in (("insert", rows), ("sample", batch), ("update", batch), ("runtime", 1)):
        yield PrimitiveCase(f"beside_learner.{part}", target, items, case, part)


def beside_replay(target: Target, case: Case[Round], rows: int, batch: int) -> Iterator[PrimitiveCase]:
    """The native learner's parts, and the loop's, beside a replay management."""
    for part, items in (("collect", rows), ("learn", batch), ("runtime", 1)):
        yield PrimitiveCase(f"beside_replay.{part}", target, items, case, part)


def actor_for(
    workload: Workload, vector_steps: int, fields: dict[str, FieldSpec], *, clip: bool = False
) -> Actor:
    """An actor late in training: its exploration has reached the final rate.

    Args:
        workload: whose environments are stepped.
        vector_steps: most in a call.
        fields, clip: as `Actor` takes them.
    """
    environment_seed, exploration_seed = np.random.SeedSequence(0).spawn(2)
    room = max(vector_steps, 2)  # the check takes two
    actor = actors_of(workload, environment_seed, exploration_seed, fields, room, clip=clip).build()
    actor.environment_steps = LATE
    return actor


def collect_case(
    workload: Workload, target: Target, learner: Any, fields: dict[str, FieldSpec], *, clip: bool = False
) -> PrimitiveCase:
    """`round.collect` alone: one vector step, whose actions come from a learner's exploring policy.

    Args:
        workload: whose environments are stepped.
        target: the learner's.
        learner: makes it, or gives the one that is there.
        fields, clip: as `Actor` takes them.
    """
    return PrimitiveCase(
        "round.collect",
        target,
        workload.training.actors,
        Case(
            name=f"round.collect {target}",
            setup=lambda: (actor_for(workload, 1, fields, clip=clip), learner()),
            check=lambda made: check_collect(*made),
            inputs=lambda made, rng: None,
            call=lambda made, _: made[0].collect(1, made[1].explore),
            close=lambda made: made[0].close(),
        ),
    )
