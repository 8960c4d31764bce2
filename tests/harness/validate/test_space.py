"""The space of a cell: what is combined, and what is tried once."""

from dataclasses import replace

import pytest

from placerl.harness import workloads
from placerl.harness.mapping import Loop, Mapping
from placerl.harness.validate import tried
from placerl.harness.validate.space import (
    FEW_AHEAD,
    MORE_ACTORS,
    Decision,
    Setting,
    simulated_space,
    space,
    under,
)

DQN = workloads.override(workloads.load("cartpole-dqn"), "replay.capacity", 2048, "test")
PPO = workloads.load("cartpole-ppo")
MAPPINGS = ("native-native-cpu", "torch-flat-cpu", "opencl-native-cpu", "native[bfloat16]-native-cpu")


@pytest.fixture(autouse=True)
def mappings(monkeypatch):
    """A machine with these mappings, and a simulated FPGA."""
    found = [Mapping.parse(name) for name in (*MAPPINGS, "fpga-native-cpu", "native-fpga-fpga")]
    monkeypatch.setattr(tried, "mappings", lambda item, precisions: found)


def of(mapping, found):
    return [choice for choice in found if str(choice.mapping) == mapping]


def test_with_the_native_replay_on_the_host_everything_is_combined():
    found = space(DQN, 32, 2)
    assert len(found) == len(set(found))
    native = of("native-native-cpu", found)
    ahead = max(choice.ahead for choice in native)
    for loop, depths in (("fused", {0}), ("overlapped", {0}), ("relaxed", {FEW_AHEAD, ahead})):
        combined = {
            (choice.threads, choice.actors, choice.ahead, choice.processes)
            for choice in native
            if choice.loop == loop
        }
        processes = int(loop != "fused")
        assert combined == {
            (threads, actors, depth, processes)
            for threads in (1, 2)
            for actors in (1, MORE_ACTORS)
            for depth in depths
        }
    assert [choice for choice in native if choice.loop is Loop.STRICT] == [
        Decision(Mapping.parse("native-native-cpu"), Loop.STRICT)
    ]
    assert {choice.threads for choice in of("native[bfloat16]-native-cpu", found)} == {1, 2}
    assert {choice.threads for choice in of("opencl-native-cpu", found)} == {1}, "its threads are its own"


def test_elsewhere_the_mapping_is_tried_once():
    assert of("torch-flat-cpu", space(DQN, 32, 2)) == [Decision(Mapping.parse("torch-flat-cpu"))]


def test_the_simulated_device_has_a_space_of_its_own(monkeypatch):
    assert {str(choice.mapping) for choice in space(DQN, 32, 1)} == set(MAPPINGS)
    found = [Mapping.parse(name) for name in (*MAPPINGS, "fpga-native-cpu", "native-fpga-fpga")]
    monkeypatch.setattr(tried, "mappings", lambda item: found)
    choices = simulated_space(DQN, 32)
    loops = (Loop.FUSED, Loop.OVERLAPPED, Loop.RELAXED)
    assert [(str(choice.mapping), choice.loop) for choice in choices] == [
        (name, loop) for name in ("fpga-native-cpu", "native-fpga-fpga") for loop in loops
    ]
    assert {choice.setting for choice in choices} == {Setting(1, 1)}


@pytest.mark.parametrize(("cores", "threads"), [(1, {1}), (2, {1, 2}), (6, {1, 2, 4, 6})])
def test_threads_are_powers_of_two_up_to_the_cores(cores, threads):
    found = of("native-native-cpu", space(DQN, 32, cores))
    assert {choice.threads for choice in found} == threads


@pytest.mark.parametrize(
    ("cores", "actors", "processes"), [(1, 8, {0}), (2, 8, {0, 2}), (4, 2, {0, 2}), (2, 1, {0})]
)
def test_on_policy_actors_have_processes_and_no_other_loop(cores, actors, processes):
    item = PPO.model_copy(update={"training": PPO.training.model_copy(update={"actors": actors})})
    found = space(item, 32, cores)
    assert {choice.processes for choice in found} == processes
    assert {choice.loop for choice in found} == {Loop.FUSED}
    assert {choice.actors for choice in found} == {actors}


def test_a_strategy_of_mappings_alone_has_one_thread_and_the_workload_s_actors():
    plain = Mapping.parse("native-native-cpu")
    assert under(DQN, plain, Loop.RELAXED, 50) == Decision(plain, Loop.RELAXED, 50, processes=1)
    assert under(DQN, plain, Loop.STRICT, 50) == Decision(plain, Loop.STRICT)
    apart = Mapping.parse("torch-flat-cpu")
    assert under(DQN, apart, Loop.STRICT, 50) == Decision(apart, Loop.FUSED), "nothing of it can be fused"
    assert under(DQN, apart, Loop.OVERLAPPED, 50) == replace(Decision(apart, Loop.OVERLAPPED), processes=1)


@pytest.mark.parametrize(
    ("loop", "stated", "words"),
    [
        (Loop.FUSED, {}, "fused"),
        (Loop.FUSED, {"threads": 2, "actors": 8}, "fused, 2 threads, 8 actors"),
        (Loop.FUSED, {"processes": 1}, "fused, 1 processes"),
        (Loop.FUSED, {"actors": 4, "processes": 2}, "fused, 4 actors, 2 processes"),
        (Loop.RELAXED, {"ahead": 2, "processes": 1}, "relaxed, D = 2"),
        (Loop.OVERLAPPED, {"processes": 1}, "overlapped"),
        (Loop.OVERLAPPED, {"processes": 3}, "overlapped, 3 processes"),
    ],
)
def test_a_decision_names_what_differs_from_one_thread_and_one_actor(loop, stated, words):
    decision = Decision(Mapping.parse("native-native-cpu"), loop, **stated)
    assert str(decision) == f"native-native-cpu {words}"
    assert decision.columns() == {
        **{"mapping": "native-native-cpu", "loop": str(loop), "choice": str(decision)},
        **{"ahead": 0, "threads": 1, "actors": 1, "processes": 0},
        **stated,
    }


def test_a_setting_has_processes_only_where_actors_wait_for_them():
    plain = Decision(Mapping.parse("native-native-cpu"), threads=2, actors=8, processes=4)
    assert plain.setting == Setting(2, 8, 4)
    for loop in (Loop.RELAXED, Loop.OVERLAPPED):
        assert replace(plain, loop=loop).setting == Setting(2, 8, 0)
