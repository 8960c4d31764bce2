"""Parts that cases share: learners of several threads, one replay for all, and processes for several learners."""

from dataclasses import replace

import numpy as np
import pytest

from placerl.harness import workloads
from placerl.harness.mapping import Target
from placerl.harness.mapping.problem import problem_of
from placerl.harness.profile.cases import shared_actors, shared_parts
from placerl.harness.profile.cases.shared_parts import SharedParts
from placerl.harness.runtime.actors.pool import ActorPlan

NATIVE = Target("native")


class Pool:
    """Processes that only note who started them."""

    started: list["Pool"]

    def __init__(self, plan, learner, processes):
        self.plan, self.learner, self.processes, self.closed = plan, learner, processes, False
        Pool.started.append(self)

    def close(self):
        self.closed = True


@pytest.fixture
def created_learners(monkeypatch):
    """The learners that were created, as target and threads."""
    learners = []

    def created(workload, batch_size, target, start, threads):
        learners.append((target, threads))
        return object()

    Pool.started = []
    for module in (shared_parts, shared_actors):
        monkeypatch.setattr(module, "ActorPool", Pool)
    monkeypatch.setattr(shared_parts, "profiled_start", lambda workload: None)
    monkeypatch.setattr(shared_parts, "created", created)
    return learners


def parts(threads=1, actors=1, like=None):
    item = workloads.override(workloads.load("cartpole-dqn"), "replay.capacity", 2048, "test")
    item = workloads.override(item, "training.actors", actors, "test")
    return SharedParts(item, replace(problem_of(item, 32), learner_threads=threads), like)


def test_parts_of_more_threads_have_their_own_learners_and_the_same_replays(created_learners):
    one = parts()
    two = parts(threads=2, like=one)
    assert one.learner(NATIVE) is one.learner(NATIVE)
    assert one.learner(NATIVE) is not two.learner(NATIVE)
    assert parts(actors=8, like=two).learner(NATIVE) is one.learner(NATIVE)
    assert created_learners == [(NATIVE, 1), (NATIVE, 2)]
    assert one.replay(NATIVE) is two.replay(NATIVE)
    assert parts().learner(NATIVE) is not one.learner(NATIVE), "unless they are like them"


def test_as_many_actors_are_one_process_for_learners_of_all_threads(created_learners):
    one = parts()
    two, more = parts(threads=2, like=one), parts(actors=8, like=one)
    for some in (one, two, more, one):
        some.actors(NATIVE)
    assert [len(pool.plan.environments) for pool in Pool.started] == [1, 8]
    two.close()
    assert all(pool.closed for pool in Pool.started)
    one.close()
    one.actors(NATIVE)
    assert len(Pool.started) == 3


def test_processes_of_on_policy_actors_are_shared_by_number(created_learners):
    one = parts(actors=2)
    plan = ActorPlan((lambda: None, lambda: None), np.random.SeedSequence(0), {}, 4)
    for learner, processes in (("a", 2), ("b", 2), ("a", 1)):
        one.on_policy_actors(plan, learner, processes)
    assert [pool.processes for pool in Pool.started] == [2, 1]
    assert [pool.plan for pool in Pool.started] == [plan, plan]


def test_replays_whose_trees_are_apart_share_one_storage_and_have_priorities_of_their_own(created_learners):
    one = parts()
    flat, binary, fused = one.replay(Target("flat")), one.replay(Target("binary")), one.replay(NATIVE)
    assert flat.storage is binary.storage
    assert fused.storage is not flat.storage, "its rows are in the same native call as its tree"
    rows = np.arange(2048)
    for replay in (flat, binary):
        assert len(replay) == 2048
        assert (replay.tree.get(rows) > 0).all()
        replay.update_priorities(rows[:4], np.full(4, 7.0))
    before = flat.tree.get(rows)
    binary.update_priorities(rows, np.ones(2048))
    np.testing.assert_array_equal(flat.tree.get(rows), before)
    drawn = binary.sample(32, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn.batch["reward"], flat.storage.gather(drawn.indices)["reward"])
