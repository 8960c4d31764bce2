"""What is chosen next to a mapping."""

import pytest

from placerl.harness import workloads
from placerl.harness.loop.schedule import STRICT, Schedule


def test_only_what_differs_from_the_strict_loop_is_told():
    assert STRICT.given() == {}
    assert str(STRICT) == ""
    schedule = Schedule(overlap=8, processes=2)
    assert schedule.given() == {"overlap": 8, "processes": 2}
    assert str(schedule) == "processes=2,overlap=8"


@pytest.mark.parametrize(
    ("asked", "simulated", "processes"),
    [
        ({}, False, 0),
        ({"threads": 2}, False, 2),
        ({"threads": 9}, False, 8),  # one for each of the 8 environments
        ({"threads": 2}, True, 0),
        ({"threads": 2, "processes": 0}, False, 0),
        ({"threads": 2, "processes": 5}, True, 5),
    ],
)
def test_an_on_policy_algorithm_has_a_process_for_each_thread_by_default(asked, simulated, processes):
    assert Schedule(**asked).actor_processes(workloads.load("cartpole-ppo"), simulated) == processes


def test_an_algorithm_with_a_replay_has_no_processes_by_default():
    item = workloads.override(workloads.load("cartpole-dqn"), "training.actors", 8, "test")
    assert Schedule(threads=2).actor_processes(item) == 0
    assert Schedule(threads=2, processes=3).actor_processes(item) == 3
