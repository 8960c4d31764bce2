"""The pieces of an on-policy iteration whose actors are in processes."""

from dataclasses import replace

import numpy as np
import pytest

from placerl.harness import workloads
from placerl.harness.mapping.problem import problem_of
from placerl.harness.profile.cases import on_policy, piece_cases
from placerl.harness.profile.cases.on_policy import on_policy_cases
from placerl.harness.profile.cases.shared_parts import SharedParts
from placerl.harness.workloads import Workload


def small() -> Workload:
    """PPO with two environments of four steps."""
    item = workloads.load("cartpole-ppo")
    for field, value in (
        ("training.batch_sizes", [8]),
        ("training.batch_size", 8),
        ("training.learning_starts", 8),
        ("training.actors", 2),
        ("algorithm.trajectory_length", 4),
    ):
        item = workloads.override(item, field, value, "test")
    return item


@pytest.mark.parametrize("processes", [0, 2])
def test_an_iteration_s_steps_are_a_piece_only_with_processes(processes: int) -> None:
    problem = replace(problem_of(small(), 8), actor_processes=processes)
    found = {one.primitive: one.batch_size for one in on_policy_cases(small(), problem)}
    collected = {"iteration.collect": 8} if processes else {"round.collect": 2}
    native = {} if processes else {f"native_iteration.{part}": 8 for part in ("collect", "prepare", "learn")}
    native |= {} if processes else {"native_iteration.runtime": 1}
    wanted = {"round.learn": 8, "round.prepare": 8, "iteration.runtime": 1}
    assert found == collected | wanted | native


def test_preparation_is_timed_for_the_learner_whose_threads_it_has() -> None:
    problem = problem_of(small(), 8)
    found = [str(one.target) for one in on_policy_cases(small(), problem) if one.primitive == "round.prepare"]
    assert found.count("cpu") == found.count("torch") == 1


def test_pieces_and_trainings_share_their_learners() -> None:
    item = small()
    parts = SharedParts(item, problem_of(item, 8))
    one = next(one for one in piece_cases(item, 8, parts) if str(one.target) == "native")
    iteration = one.case.setup()
    try:
        assert iteration.learner is parts.learner(one.target)
    finally:
        one.case.close(iteration)


def test_the_parts_of_an_iteration_are_timed_by_their_calls() -> None:
    """All vector steps and gradient steps of a short iteration are timed."""
    item = small()
    case = next(iter(on_policy_cases(item, problem_of(item, 8)))).case
    iteration = case.setup()
    try:
        case.check(iteration)
        for _ in range(2):
            case.call(iteration, None)
        taken = iteration.taken()
        steps = problem_of(item, 8).iteration_gradient_steps
        assert {part: [piece.calls for piece in pieces] for part, pieces in taken.items()} == {
            "collect": [4, 4],
            "prepare": [1, 1],
            "learn": [steps, steps],
            "runtime": [1, 1],
        }
        assert all(piece.seconds > 0 for pieces in taken.values() for piece in pieces)
        assert iteration.runtime.gradient_steps == (1 + 2) * steps, "one iteration to warm up"
    finally:
        case.close(iteration)


def test_a_long_iteration_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_policy, "PART_S", 0.0)
    item = small()
    case = next(iter(on_policy_cases(item, problem_of(item, 8)))).case
    iteration = case.setup()
    try:
        before = iteration.acting.environment_steps
        case.call(iteration, None)
        assert iteration.acting.environment_steps - before == 2 * 2, "an untimed step precedes the timed one"
        assert {part: pieces[0].calls for part, pieces in iteration.taken().items()} == {
            "collect": 1,
            "prepare": 1,
            "learn": 1,
            "runtime": 1,
        }
    finally:
        case.close(iteration)


@pytest.mark.slow
def test_an_iteration_in_processes_collects_with_the_newest_weights() -> None:
    item = small()
    problem = replace(problem_of(item, 8), actor_processes=2)
    parts = SharedParts(item, problem)
    try:
        one = next(
            one
            for one in on_policy_cases(item, problem, parts=parts)
            if one.primitive == "iteration.collect" and str(one.target) == "native"
        )
        iteration = one.case.setup()
        acting, before = iteration.acting, iteration.acting.environment_steps
        one.case.check(iteration)
        one.case.call(iteration, one.case.inputs(iteration, np.random.default_rng(0)))
        assert acting.environment_steps - before == (2 + 4) * 2
        assert iteration.taken()["collect"][0].calls == 1, "a call is the collection of a whole iteration"
        one.case.close(iteration)
        acting.submit(1)  # others use them, so they are still there
        assert len(acting.result()["reward"]) == 2
    finally:
        parts.close()
