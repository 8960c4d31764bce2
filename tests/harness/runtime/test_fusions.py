"""Which neighbouring calls of a training can be one native call, and which are."""

from typing import Any

import pytest

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import Environments, Fusion, InitialPriorities, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime.fusions import chosen_fusion, fusions, on_policy_fusions
from tests.harness.runtime.test_on_policy import small

NATIVE = Mapping.parse("native-native-cpu")
DQN = workloads.load("cartpole-dqn")
UNIFORM = workloads.override(DQN, "replay.prioritized", False, "test")
BOTH = (Fusion.NONE, Fusion.ITERATION)


@pytest.mark.parametrize(
    ("mapping", "ahead", "expected"),
    [
        ("native-native-cpu", 0, "none replay step"),
        ("native-native-cpu", 1, "none replay"),
        ("native[fixed32]-native-cpu", 0, "none replay step"),
        ("torch-native-cpu", 0, "none replay"),
        ("torch[fixed32]-native-cpu", 0, "none replay"),
        ("native-flat-cpu", 0, "none"),
        ("native-native-fpga", 0, "none"),
    ],
)
def test_neighbours_fuse_where_they_are_native_and_the_batch_is_sampled_now(mapping, ahead, expected):
    parsed = Mapping.parse(mapping)
    found = fusions(DQN, parsed, ahead)
    assert " ".join(found) == expected
    gymnasium = Schedule(presampled_batches=ahead, environments=Environments.GYMNASIUM)
    assert chosen_fusion(DQN, parsed, gymnasium) == found[-1]
    assert chosen_fusion(DQN, parsed, Schedule(presampled_batches=ahead, fusion=Fusion.NONE)) is Fusion.NONE


@pytest.mark.parametrize(
    ("mapping", "expected"), [("native-native-cpu", "step"), ("torch-native-cpu", "replay")]
)
@pytest.mark.parametrize("ahead", [0, 3])
def test_beside_a_replay_manager_whole_steps_fuse_with_batches_ahead(mapping, expected, ahead):
    found = chosen_fusion(DQN, Mapping.parse(mapping), Schedule(presampled_batches=ahead, replay_beside=True))
    assert found == expected


@pytest.mark.parametrize(
    ("options", "mapping", "expected"),
    [
        ({}, "native-native-cpu", Fusion.ROUND),
        ({}, "native[bfloat16]-native-cpu", Fusion.ROUND),
        ({"threads": 2}, "native-native-cpu", Fusion.ROUND),
        ({}, "native[fixed32]-native-cpu", Fusion.STEP),
        ({}, "torch-native-cpu", Fusion.REPLAY),
        ({"environments": Environments.GYMNASIUM}, "native-native-cpu", Fusion.STEP),
        ({"processes": 1}, "native-native-cpu", Fusion.STEP),
        ({"overlap": 8}, "native-native-cpu", Fusion.STEP),
        ({"replay_beside": True}, "native-native-cpu", Fusion.STEP),
        ({"initial_priorities": InitialPriorities.ACTOR}, "native-native-cpu", Fusion.STEP),
    ],
)
def test_rounds_fuse_where_all_is_native_and_in_turns(options, mapping, expected):
    parsed = Mapping.parse(mapping)
    assert chosen_fusion(DQN, parsed, Schedule(**options)) is expected


def test_without_priorities_nothing_fuses():
    assert fusions(UNIFORM, NATIVE, 0) == (Fusion.NONE,)
    with pytest.raises(UserError, match="fusion: found step; allowed: none"):
        chosen_fusion(UNIFORM, NATIVE, Schedule(fusion=Fusion.STEP))


@pytest.mark.parametrize(
    ("options", "mapping", "allowed"),
    [
        ({}, "native-native-cpu", BOTH),
        ({"environments": Environments.GYMNASIUM}, "native-native-cpu", BOTH[:1]),
        ({}, "torch-native-cpu", BOTH[:1]),
        ({}, "native[fixed32]-native-cpu", BOTH[:1]),
        ({"processes": 1}, "native-native-cpu", BOTH[:1]),
        ({"processes": 0, "threads": 2}, "native-native-cpu", BOTH),
        ({"threads": 2}, "native-native-cpu", BOTH[:1]),  # one process a thread
    ],
)
def test_iterations_fuse_where_all_is_native_and_in_one_process(
    options: dict[str, Any], mapping: str, allowed: tuple[Fusion, ...]
) -> None:
    asked = Schedule(**options)
    assert on_policy_fusions(small(), Mapping.parse(mapping), asked) == allowed
    assert chosen_fusion(small(), Mapping.parse(mapping), asked) is allowed[-1]
