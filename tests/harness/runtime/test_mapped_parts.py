"""What a mapping names is asked for, before any of it is created."""

import re

import pytest

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.mapping import Mapping
from placerl.harness.runtime import compose, mapped_parts

CARTPOLE = workloads.load("cartpole-dqn")


@pytest.mark.parametrize(
    ("mapping", "allowed"),
    [
        ("torch-native-cuda", "cpu"),
        ("native-flat-flat", "cpu"),
        ("native-fpga:u200-fpga:u50", "cpu or fpga:u200"),
        ("fpga:u200-native-fpga:u50", "cpu or fpga:u200"),
    ],
)
def test_data_lies_on_the_host_or_with_a_simulated_learner_or_replay(mapping, allowed):
    with pytest.raises(UserError) as refused:
        mapped_parts.check_storage(Mapping.parse(mapping))
    assert f"allowed: {allowed}" in str(refused.value)
    assert refused.value.field == "storage"
    for fine in ("native-fpga:u200-fpga:u200", "native-fpga:u200-cpu", "fpga-native-fpga"):
        mapped_parts.check_storage(Mapping.parse(fine))
        assert compose.storage_of(CARTPOLE, Mapping.parse(fine)).capacity == CARTPOLE.replay.capacity


def test_what_a_mapping_names_is_looked_for_before_anything_starts(short):
    task = short("cartpole-dqn")
    for mapping in ("native-native-cpu", "torch-reference-cpu", "torch:cpu-flat-cpu"):
        mapped_parts.check(task, Mapping.parse(mapping))
    for field, mapping in (
        ("learner", "abacus-native-cpu"),
        ("rmm", "native-abacus-cpu"),
        ("storage", "native-native-moon"),
    ):
        with pytest.raises(UserError) as refused:
            mapped_parts.check(task, Mapping.parse(mapping))
        assert refused.value.field == field


@pytest.mark.parametrize(
    ("mapping", "options", "words"),
    [
        ("native[fixed32]", {"delay": 5}, "delay: found 5; allowed: gradient steps"),
        ("native", {"delay": 5}, "delay: found 5; allowed: gradient steps"),
        ("native[dynamic]", {"delay": 0}, "delay: found 0; allowed: gradient steps"),
        ("fpga[fixed32]", {}, "learner: found fpga[fixed32]; allowed: fpga"),
        ("abacus[fixed32]", {}, "learner: found abacus[fixed32]"),
    ],
)
def test_what_does_not_go_with_a_precision_is_refused_before_anything_starts(short, mapping, options, words):
    with pytest.raises(UserError, match=re.escape(words)):
        mapped_parts.check(short("cartpole-dqn"), Mapping.parse(f"{mapping}-native-cpu"), **options)


@pytest.mark.parametrize(
    "name", ["cartpole-ddpg", "pendulum-td3", "pendulum-sac", "cartpole-dqn", "cartpole-ppo"]
)
def test_every_algorithm_can_be_trained_in_fixed_point(short, name):
    mapped_parts.check(short(name), Mapping.parse("native[fixed32]-native-cpu"))
