"""Goals and own settings: every one is a workload, each side's source is stated, and mistakes are named."""

import pytest

from placerl.harness import workloads
from placerl.harness.compare import registry
from placerl.harness.compare.own_settings import Goal, goals
from placerl.harness.core.errors import UserError


@pytest.mark.parametrize("goal", goals().values(), ids=str)
def test_every_system_trains_the_same_task(goal: Goal) -> None:
    ours = goal.workload_of("placerl")
    assert ours.name == goal.name
    assert goal.random_return < goal.threshold == ours.training.solved_return
    assert len(set(goal.systems)) == len(goal.systems)
    for system in goal.systems[1:]:
        theirs = goal.workload_of(system)
        assert system in registry.baseline_names()
        assert theirs.environment == ours.environment
        assert theirs.algorithm.name == ours.algorithm.name
        assert not theirs.replay.prioritized, "no other library has a prioritised replay"


def test_this_project_trains_what_it_ships() -> None:
    for goal in goals().values():
        if goal.workload is None:
            tables = workloads.load(goal.name).tables() | {"stands_for": []}
            assert goal.workload_of("placerl") == workloads.from_tables(tables, "a test")


def test_a_field_that_no_workload_has_is_named() -> None:
    goal = goals()["cartpole-dqn"].model_copy(update={"changes": {"training": {"batchsize": 3}}})
    with pytest.raises(UserError, match=r"training: found batchsize; allowed: .*batch_size"):
        goal.workload_of("placerl")
