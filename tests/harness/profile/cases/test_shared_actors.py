"""One process acts for every learner of a cell in turn, with the weights of the one that asks."""

from types import SimpleNamespace
from typing import Any

import pytest

from placerl.harness import workloads
from placerl.harness.mapping import Target
from placerl.harness.mapping.problem import problem_of
from placerl.harness.pieces.learners import LATE
from placerl.harness.profile.cases import shared_parts
from placerl.harness.profile.cases.shared_actors import BorrowedActors, late_pool
from placerl.harness.profile.cases.shared_parts import SharedParts
from placerl.primitives.learner import Learner


class Pool:
    """Notes which learner's weights each request uses."""

    def __init__(self, learner: Any) -> None:
        self.learner, self.noted, self.closed = learner, [], 0
        self.environment_steps, self.environment_s, self.inference_s = LATE, 2.0, 3.0

    def follow(self, learner: Any) -> None:
        self.learner = learner
        self.noted.append(f"weights of {learner.name}")

    def submit(self, steps: int, explore: bool) -> None:
        self.noted.append(f"{steps} steps of {self.learner.name}")

    def result(self, limit_s: float) -> str:
        return "transitions"

    def close(self) -> None:
        self.closed += 1


def test_the_weights_are_those_of_the_learner_that_asks() -> None:
    first, second = (SimpleNamespace(name=name) for name in ("first", "second"))
    pool: Any = Pool(first)
    actors = [BorrowedActors(pool, learner) for learner in (first, second)]  # type: ignore[arg-type]
    assert actors[0].collect(3) == actors[1].collect(4) == "transitions"
    actors[1].submit(5)
    actors[1].publish()
    actors[0].submit(6)
    assert pool.noted == [
        "3 steps of first",
        "weights of second",
        "4 steps of second",
        "5 steps of second",
        "weights of second",
        "weights of first",
        "6 steps of first",
    ]
    assert (actors[0].environment_steps, actors[0].environment_s, actors[0].inference_s) == (LATE, 2, 3)
    actors[0].close()
    assert not pool.closed, "the other learner still uses it"


def test_learners_with_one_policy_share_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def pool_for(workload: Any, problem: Any, learner: Any) -> Pool:
        started.append(Pool(learner))
        return started[-1]

    monkeypatch.setattr(shared_parts, "late_pool", pool_for)
    monkeypatch.setattr(SharedParts, "learner", lambda self, target: SimpleNamespace(name=str(target)))
    item = workloads.load("cartpole-dqn")
    parts = SharedParts(item, problem_of(item, 32))
    for target in ("native", "torch", "native[bfloat16]", "native[fixed32]", "native[fixed16]", "native"):
        parts.actors(Target.parse(target))
    assert [pool.learner.name for pool in started] == ["native", "native[fixed32]", "native[fixed16]"]
    parts.close()
    parts.close()
    assert [pool.closed for pool in started] == [1, 1, 1]


@pytest.mark.slow
def test_it_acts_late_in_training_and_has_room_for_an_iteration() -> None:
    """Real learners of two backends in one process: cart-pole's greedy actions are those of the weights in use."""
    item = workloads.override(workloads.load("cartpole-dqn"), "replay.capacity", 3000, "test")
    problem = problem_of(item, 32)
    parts = SharedParts(item, problem)
    learners: list[Learner] = [parts.learner(Target(name)) for name in ("native", "torch")]
    pool = late_pool(item, problem, learners[0])
    try:
        assert pool.environment_steps == LATE
        for _ in range(2):
            for learner in learners:
                steps = problem.overlapped_rounds() * problem.round_vector_steps
                rows = BorrowedActors(pool, learner).collect(steps)
                assert len(rows["reward"]) == steps * problem.actors
                greedy = learner.act(rows["observation"])
                assert (rows["action"] == greedy).mean() > 0.7
    finally:
        pool.close()
