"""The pieces of an on-policy iteration whose actors are in processes."""

from dataclasses import replace

import numpy as np
import pytest

from harness import workloads
from harness.mapping.problem import problem_of
from harness.profile.cases.on_policy import on_policy_cases
from harness.profile.cases.shared_parts import SharedParts
from harness.workloads import Workload


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
    found = [one for one in on_policy_cases(small(), problem) if one.primitive == "iteration.collect"]
    assert bool(found) == bool(processes)
    assert {one.batch_size for one in found} <= {8}


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
        acting = one.case.setup()
        before = acting.environment_steps
        one.case.check(acting)
        one.case.call(acting, one.case.inputs(acting, np.random.default_rng(0)))
        assert acting.environment_steps - before == (2 + 4) * 2
        one.case.close(acting)
        acting.submit(1)  # others use them, so they are still there
        assert len(acting.result()["reward"]) == 2
    finally:
        parts.close()
