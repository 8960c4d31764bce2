"""Rounds of training, timed in the parts that `harness.mapping.composed_loop` adds up.

A part is timed where it stands in the loop, after the part before it and ahead of the next: called alone again and
again, its code and its data would be warmer than a loop ever finds them. So that the number of sequences grows with
the sum, not the product, of the targets, every learner runs beside the native replay management, and every replay
management beside the native learner. Batches, indices and TD errors are handed on as in the loop.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from time import perf_counter
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from harness.cases.base import PrimitiveCase, random_transitions, targets
from harness.cases.learners import LATE, created, learner_targets
from harness.cases.round_checks import check_collect, check_learn, check_replay, check_steps
from harness.cases.runtime_rounds import empty_training
from harness.mapping import Mapping, Problem, Target
from harness.measure import Case
from harness.runtime.actor import Actor
from harness.runtime.compose import Fusion, actors_of, columns_of, fusions, replay_of, storage_of
from harness.runtime.training import Training
from harness.workload import Workload
from primitives import sum_tree
from primitives.fused import FusedSteps
from primitives.learner import Learner
from primitives.replay import ConcurrentReplay, FieldSpec
from primitives.replay.base import Replay, Sample

NATIVE, CPU = Target("native"), Target("cpu")
_BLOCK = 65_536


@dataclass
class Round:
    """The parts of one mapping's loop, and the seconds that each has taken.

    Attributes:
        problem: sizes of a round.
        actor, learner, replay: at work.
        out: where batches go.
        runtime: a training whose parts do nothing.
        steps: fused gradient steps, or None.
        rng: source of the random numbers of sampling.
        terms_s: seconds by part since they were last taken.
    """

    problem: Problem
    actor: Actor
    learner: Learner
    replay: Replay
    out: Sample
    runtime: Training
    steps: FusedSteps | None = None
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(2))
    terms_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def run(self) -> None:
        """One round, in parts; with it, how long one reading of the clock takes."""
        terms_s, replay, learner = self.terms_s, self.replay, self.learner
        problem = self.problem
        start_s = perf_counter()
        begin_s = perf_counter()
        transitions = self.actor.collect(problem.round_vector_steps, learner.explore)
        collected_s = perf_counter()
        replay.insert(transitions)
        inserted_s = perf_counter()
        terms_s["reading"] += begin_s - start_s
        terms_s["collect"] += collected_s - begin_s
        terms_s["insert"] += inserted_s - collected_s
        if self.steps is not None:
            begin_s = perf_counter()
            self.steps.run(problem.round_gradient_steps, self.rng)
            terms_s["steps"] += perf_counter() - begin_s
            self._run_nothing()
            return
        for _ in range(problem.round_gradient_steps):
            begin_s = perf_counter()
            sample = replay.sample(problem.batch_size, self.rng, out=self.out)
            sampled_s = perf_counter()
            outcome = learner.step(sample.batch, sample.weights)
            learnt_s = perf_counter()
            replay.update_priorities(sample.indices, outcome.td_errors)
            updated_s = perf_counter()
            terms_s["sample"] += sampled_s - begin_s
            terms_s["learn"] += learnt_s - sampled_s
            terms_s["update"] += updated_s - learnt_s
        self._run_nothing()

    def _run_nothing(self) -> None:
        """A round of the runtime itself."""
        begin_s = perf_counter()
        self.runtime.take(self.problem.round_gradient_steps)
        self.terms_s["runtime"] += perf_counter() - begin_s

    def taken(self) -> dict[str, float]:
        """Seconds by part since the last call, a reading of the clock taken off each time that it was read."""
        found, self.terms_s = self.terms_s, defaultdict(float)
        reading_s = found.pop("reading", 0.0)
        per_step = self.problem.round_gradient_steps
        return {
            name: seconds - reading_s * (per_step if name in ("sample", "learn", "update") else 1)
            for name, seconds in found.items()
        }


def round_cases(workload: Workload, problem: Problem) -> Iterator[PrimitiveCase]:
    """Every sequence that off-policy training is predicted from.

    Args:
        workload: with a replay that fits the memory several times.
        problem: what the models know of the workload.
    """
    rmms = managers(workload)
    replays = {target: cache(lambda target=target: filled(workload, target)) for target in rmms}
    learners = {
        target: cache(lambda target=target: created(workload, problem.batch_size, target))
        for target in learner_targets()
    }
    rows, batch = problem.round_vector_steps * problem.actors, problem.batch_size

    def case(name: str, learner: Target, manager: Target, fused: bool = False) -> Case[Round]:
        def setup() -> Round:
            actor = actor_for(workload, problem.round_vector_steps, columns_of(workload))
            trainee, replay = learners[learner](), replays[manager]()
            steps = FusedSteps(cast(ConcurrentReplay, replay), trainee) if fused else None
            out = replay.sample(batch, np.random.default_rng(1))
            runtime = empty_training(workload, problem, Fusion.STEP if fused else Fusion.NONE)
            return Round(problem, actor, trainee, replay, out, runtime, steps)

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
        )

    for target in learners:
        made = case(f"round of learner {target}", target, rmms[0])
        yield PrimitiveCase("round.collect", target, rows, made, "collect")
        yield PrimitiveCase("round.learn", target, batch, made, "learn")
        if target == NATIVE:
            yield PrimitiveCase("round.runtime", CPU, 1, made, "runtime")
    for target in rmms:
        made = case(f"round of replay {target}", NATIVE, target)
        yield PrimitiveCase("round.insert", target, rows, made, "insert")
        yield PrimitiveCase("round.sample", target, batch, made, "sample")
        yield PrimitiveCase("round.update", target, batch, made, "update")
    if Fusion.STEP in fusions(workload, Mapping(NATIVE, NATIVE, CPU), 0):
        made = case("fused round native", NATIVE, NATIVE, fused=True)
        yield PrimitiveCase("fused_round.collect", NATIVE, rows, made, "collect")
        yield PrimitiveCase("fused_round.insert", NATIVE, rows, made, "insert")
        yield PrimitiveCase("fused_round.steps", NATIVE, batch, made, "steps")
        yield PrimitiveCase("fused_round.runtime", CPU, 1, made, "runtime")


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


def managers(workload: Workload) -> list[Target]:
    """Where replay management can run, native first; uniform replay has none, and goes by the first name."""
    if not workload.replay.prioritized:
        return [NATIVE]
    return sorted(targets(sum_tree.backends(), "flat"), key=lambda target: (target != NATIVE, target))


def filled(workload: Workload, target: Target) -> Replay:
    """The replay that the runtime would compose with a target, full."""
    mapping = Mapping(NATIVE, target, CPU)
    fusion = Fusion.REPLAY if Fusion.REPLAY in fusions(workload, mapping, 0) else Fusion.NONE
    replay = replay_of(workload, mapping, storage_of(workload, mapping), fusion)
    fill(replay, np.random.default_rng(0))
    return replay


def fill(replay: Replay, rng: np.random.Generator) -> None:
    """Insert random transitions until a replay is full, with priorities that differ."""
    block = random_transitions(replay.storage.fields, min(_BLOCK, replay.storage.capacity), rng)
    while (free := replay.storage.capacity - len(replay)) > 0:
        first = len(replay)
        count = min(free, len(block["reward"]))
        replay.insert({name: column[:count] for name, column in block.items()})
        td_errors: npt.NDArray[np.float64] = rng.standard_normal(count)
        replay.update_priorities(np.arange(first, first + count), td_errors)
