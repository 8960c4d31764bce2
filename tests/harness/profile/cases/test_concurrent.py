"""The threads of the concurrent loop are timed on each side alone."""

import os

import pytest

from placerl.harness import workloads
from placerl.harness.mapping.problem import problem_of
from placerl.harness.profile.cases.concurrent import concurrent_cases
from placerl.harness.profile.cases.shared_parts import SharedParts
from tests.harness.profile.cases.test_native_rounds import off_policy


def test_each_side_is_timed_alone() -> None:
    item = off_policy()
    problem = problem_of(item, 8)
    pieces = list(concurrent_cases(item, problem, SharedParts(item, problem)))
    assert [one.primitive for one in pieces] == [
        f"concurrent_round.{part}" for part in ("learn", "sample", "update", "collect")
    ]
    (case,) = {id(one.case): one.case for one in pieces}.values()
    sides = case.setup()
    case.check(sides)
    before = sides.training.environment_steps
    case.call(sides, None)
    assert sides.gradient_steps <= sides.training.environment_steps - before < sides.gradient_steps + 70
    assert case.parts is not None
    parts_s = case.parts(sides)
    assert min(parts_s.values()) > 0
    assert max(parts_s.values()) < 1e-3  # of 2 environment steps, or a gradient step
    assert not case.parts(sides)


def test_what_cannot_run_free_has_no_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    item = workloads.load("cartpole-ddpg")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    problem = problem_of(item, 32)
    assert not list(concurrent_cases(item, problem, SharedParts(item, problem)))
