"""The pieces of a training round as the runtime calls them: what `harness.mapping.composed_loop` adds up.

Sizes are a round's: `round_vector_steps` steps of all actors, `round_gradient_steps` gradient steps. Batches lie where
the loop's lie, in arrays that are filled again and again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.cases.base import PrimitiveCase, expect_equal, random_transitions
from harness.cases.learners import LATE, created, expect_td_errors, expected_td_errors, learner_targets
from harness.mapping import Mapping, Problem, Target
from harness.mapping.base import REFERENCE
from harness.measure import Case
from harness.runtime.actor import Actor
from harness.runtime.compose import Fusion, actors_of, columns_of, fusions, replay_of, storage_of
from harness.workload import Workload
from primitives import sum_tree
from primitives.fused import FusedSteps
from primitives.learner import Learner
from primitives.replay import FieldSpec
from primitives.replay.base import Replay, Sample

NATIVE, CPU = Target("native"), Target("cpu")
CHECKED = 64
_BLOCK = 65_536


@dataclass(frozen=True)
class _Filled:
    """A full replay, and arrays to sample into."""

    replay: Replay
    out: Sample


def round_cases(workload: Workload, problem: Problem) -> Iterator[PrimitiveCase]:
    """Every piece of a round of off-policy training, on every target that can run it.

    Args:
        workload: with a replay that fits the memory several times.
        problem: what the models know of the workload.
    """
    batch_size = problem.batch_size
    replays = {target: _filled(workload, target, batch_size) for target in _managers(workload)}
    for target, filled in replays.items():
        yield from _replay_cases(workload, problem, target, filled)
    made = next(iter(replays.values()))
    for target in learner_targets():
        learner = cache(lambda target=target: created(workload, batch_size, target))
        yield collect_case(workload, target, learner, problem.round_vector_steps, columns_of(workload))
        yield _learn_case(workload, batch_size, target, learner, made)
    if Fusion.STEP in fusions(workload, Mapping(NATIVE, NATIVE, CPU), 0):
        yield _steps_case(workload, problem, replays[NATIVE])


def collect_case(
    workload: Workload,
    target: Target,
    learner: Any,
    vector_steps: int,
    fields: dict[str, FieldSpec],
    *,
    clip: bool = False,
) -> PrimitiveCase:
    """`round.collect`: vector steps of the actor, whose actions come from a learner's exploring policy.

    Args:
        workload: whose environments are stepped.
        target: the learner's.
        learner: makes it, or gives the one that is there.
        vector_steps: of a call.
        fields, clip: as `Actor` takes them.
    """

    def setup() -> tuple[Actor, Learner]:
        environment_seed, exploration_seed = np.random.SeedSequence(0).spawn(2)
        room = max(vector_steps, 2)  # the check takes two
        actor = actors_of(workload, environment_seed, exploration_seed, fields, room, clip=clip).build()
        actor.environment_steps = LATE
        return actor, learner()

    def check(made: tuple[Actor, Learner]) -> None:
        actor, policy = made
        rows = {name: column.copy() for name, column in actor.collect(2, policy.explore).items()}
        actors = workload.training.actors
        going_on = ~rows["terminated"][:actors].astype(bool)
        expect_equal(
            rows["observation"][actors:][going_on],
            rows["next_observation"][:actors][going_on],
            "the next observation of a step is the observation of the following one",
        )

    return PrimitiveCase(
        "round.collect",
        target,
        vector_steps * workload.training.actors,
        Case(
            name=f"round.collect {target}",
            setup=setup,
            check=check,
            inputs=lambda made, rng: None,
            call=lambda made, _: made[0].collect(vector_steps, made[1].explore),
            close=lambda made: made[0].close(),
        ),
    )


def _managers(workload: Workload) -> list[Target]:
    """Where replay management can run; uniform replay has none, and is told by the first name."""
    if not workload.replay.prioritized:
        return [NATIVE]
    statuses = [status for status in sum_tree.backends() if status.available and not status.simulated]
    return [Target(status.name) for status in statuses if status.name != REFERENCE]


def _filled(workload: Workload, target: Target, batch_size: int) -> Any:
    @cache
    def filled() -> _Filled:
        mapping = Mapping(NATIVE, target, CPU)
        fusion = Fusion.REPLAY if Fusion.REPLAY in fusions(workload, mapping, 0) else Fusion.NONE
        replay = replay_of(workload, mapping, storage_of(workload, mapping), fusion)
        fill(replay, np.random.default_rng(0))
        return _Filled(replay, replay.sample(batch_size, np.random.default_rng(1)))

    return filled


def fill(replay: Replay, rng: np.random.Generator) -> None:
    """Insert random transitions until a replay is full, with priorities that differ."""
    block = random_transitions(replay.storage.fields, min(_BLOCK, replay.storage.capacity), rng)
    while (free := replay.storage.capacity - len(replay)) > 0:
        first = len(replay)
        count = min(free, len(block["reward"]))
        replay.insert({name: column[:count] for name, column in block.items()})
        replay.update_priorities(np.arange(first, first + count), rng.standard_normal(count))


def _gathered(replay: Any, indices: npt.NDArray) -> dict[str, npt.NDArray]:
    return replay.gather(indices) if hasattr(replay, "gather") else replay.storage.gather(indices)


def _priorities(replay: Any, indices: npt.NDArray) -> npt.NDArray[np.float64]:
    found = replay.tree.get(indices) if hasattr(replay, "tree") else replay.priorities(indices)
    return np.asarray(found, np.float64)


def _replay_cases(
    workload: Workload, problem: Problem, target: Target, filled: Any
) -> Iterator[PrimitiveCase]:
    batch_size, fields = problem.batch_size, columns_of(workload)
    inserted = problem.round_vector_steps * problem.actors
    prioritised = workload.replay.prioritized

    def check_insert(made: _Filled) -> None:
        written = random_transitions(fields, 2, np.random.default_rng(3))
        read = _gathered(made.replay, made.replay.insert(written))
        for name, column in written.items():
            expect_equal(read[name], column, name)

    def check_sample(made: _Filled) -> None:
        sample = made.replay.sample(batch_size, np.random.default_rng(4), out=made.out)
        for name, column in _gathered(made.replay, sample.indices).items():
            expect_equal(sample.batch[name], column, name)
        expected = np.ones(batch_size)
        if prioritised:
            priorities = _priorities(made.replay, sample.indices)
            expected = (priorities.min() / priorities) ** workload.replay.beta_initial
        # Loose, since the exponent has gone on by a few steps of its schedule.
        np.testing.assert_allclose(sample.weights, expected, rtol=1e-2, err_msg="weights")

    def check_update(made: _Filled) -> None:
        indices = np.arange(min(CHECKED, len(made.replay)))
        td_errors = np.random.default_rng(5).standard_normal(len(indices))
        made.replay.update_priorities(indices, td_errors)
        if prioritised:
            settings = workload.replay
            expected = (np.abs(td_errors) + settings.epsilon) ** settings.alpha
            found = _priorities(made.replay, indices)
            np.testing.assert_allclose(found, expected, rtol=1e-4, err_msg="priorities")

    def updates(made: _Filled, rng: np.random.Generator) -> tuple[npt.NDArray, npt.NDArray]:
        indices = rng.integers(0, len(made.replay), batch_size)
        return indices, rng.standard_normal(batch_size).astype(np.float32)

    def case(primitive: str, items: int, **options: Any) -> PrimitiveCase:
        return PrimitiveCase(
            primitive, target, items, Case(name=f"{primitive} {target}", setup=filled, **options)
        )

    yield case(
        "round.insert",
        inserted,
        check=check_insert,
        inputs=lambda made, rng: random_transitions(fields, inserted, rng),
        call=lambda made, transitions: made.replay.insert(transitions),
    )
    yield case(
        "round.sample",
        batch_size,
        check=check_sample,
        inputs=lambda made, rng: rng,
        call=lambda made, rng: made.replay.sample(batch_size, rng, out=made.out),
    )
    yield case(
        "round.update",
        batch_size,
        check=check_update,
        inputs=updates,
        call=lambda made, arguments: made.replay.update_priorities(*arguments),
    )


def _learn_case(
    workload: Workload, batch_size: int, target: Target, learner: Any, filled: Any
) -> PrimitiveCase:
    def check(made: Learner) -> None:
        sample = filled().out
        expected = expected_td_errors(workload, made, sample.batch, sample.weights)
        expect_td_errors(made.step(sample.batch, sample.weights).td_errors, expected)

    def call(made: Learner, sample: Sample) -> None:
        made.step(sample.batch, sample.weights)

    return PrimitiveCase(
        "round.learn",
        target,
        batch_size,
        Case(
            name=f"round.learn {target}",
            setup=learner,
            check=check,
            inputs=lambda made, rng: filled().out,
            call=call,
        ),
    )


def _steps_case(workload: Workload, problem: Problem, filled: Any) -> PrimitiveCase:
    """`round.steps`: sampling, gathering, training and priority update of a round's gradient steps in one call."""
    batch_size, alpha = problem.batch_size, workload.replay.alpha

    def setup() -> tuple[Any, Learner, FusedSteps]:
        replay, learner = filled().replay, created(workload, batch_size, NATIVE)
        return replay, learner, FusedSteps(replay, learner)

    def check(made: tuple[Any, Learner, FusedSteps]) -> None:
        """It draws what `sample` draws from the same generator, and leaves the new priorities."""
        replay, learner, steps = made
        sample = replay.sample(batch_size, np.random.default_rng(6))
        expected = expected_td_errors(workload, learner, sample.batch, sample.weights)
        steps.run(1, np.random.default_rng(6))
        if not alpha:  # all priorities are 1, whatever the TD errors
            expect_equal(_priorities(replay, sample.indices), np.ones(batch_size), "priorities")
            return
        found = _priorities(replay, sample.indices) ** (1 / alpha) - replay.epsilon
        expect_td_errors(found, np.abs(_last_of_repeated(sample.indices, expected)))

    return PrimitiveCase(
        "round.steps",
        NATIVE,
        batch_size * problem.round_gradient_steps,
        Case(
            name=f"round.steps {NATIVE}",
            setup=setup,
            check=check,
            inputs=lambda made, rng: rng,
            call=lambda made, rng: made[2].run(problem.round_gradient_steps, rng),
        ),
    )


def _last_of_repeated(indices: npt.NDArray, values: npt.NDArray) -> npt.NDArray:
    """For each index, the value at its last occurrence: what an update leaves behind."""
    last = {int(index): value for index, value in zip(indices, values, strict=True)}
    return np.array([last[int(index)] for index in indices])
