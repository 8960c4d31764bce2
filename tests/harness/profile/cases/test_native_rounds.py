"""Rounds and iterations in one native call are timed in parts that add up to the call."""

import pytest

from placerl.harness import workloads
from placerl.harness.loop.schedule import Fusion
from placerl.harness.mapping.problem import problem_of
from placerl.harness.mapping.target import NATIVE
from placerl.harness.profile.cases.native_rounds import native_cases
from placerl.harness.profile.cases.shared_parts import SharedParts
from placerl.harness.workloads import Workload
from tests.harness.profile.cases.test_on_policy import small as on_policy


def off_policy() -> Workload:
    item = workloads.override(workloads.load("cartpole-dqn"), "replay.capacity", 5000, "test")
    return workloads.override(item, "training.actors", 2, "test")


@pytest.mark.parametrize(
    ("item", "fusion", "parts"),
    [
        (off_policy(), Fusion.ROUND, ["collect", "insert", "steps", "runtime"]),
        (on_policy(), Fusion.ITERATION, ["collect", "prepare", "learn", "runtime"]),
    ],
)
def test_the_parts_are_those_of_whole_rounds_that_training_runs(
    item: Workload, fusion: Fusion, parts: list[str]
) -> None:
    problem = problem_of(item, 8)
    pieces = list(native_cases(item, problem, SharedParts(item, problem), [NATIVE]))
    assert [one.primitive.partition(".")[2] for one in pieces] == parts
    (case,) = {id(one.case): one.case for one in pieces}.values()
    run = case.setup()
    try:
        case.check(run)
        assert run.training.fusion is fusion
        assert case.parts is not None
        assert case.block is not None
        steps = problem.iteration_gradient_steps if problem.on_policy else problem.round_gradient_steps
        whole_s, told_s = case.block(run, 1), case.parts(run)
        assert list(told_s) == parts
        assert sum(told_s.values()) * run.gradient_steps / steps == pytest.approx(whole_s, rel=0.5)
        assert min(told_s.values()) > 0
    finally:
        case.close(run)
