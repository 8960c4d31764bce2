"""The parameters of an export are those that `placerl explore map` chooses."""

import pytest

from placerl.harness.cli.explored import explored_accelerator, learner_designs
from placerl.harness.core.errors import UserError
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.map_accelerator.described import networks_of
from placerl.primitives.fpga.tools.blocks import BLOCKS

U200 = catalogue.device("u200")


def test_an_export_has_the_layers_and_pipelines_of_the_fastest_design() -> None:
    found = explored_accelerator("hopper-ddpg", "u200", batch=32, fanout=4, levels=3)
    fastest = learner_designs("hopper-ddpg", None, 32, U200)[0]
    layers = networks_of(**{name: found[name] for name in ("network", "lanes", "updates")})
    assert layers == [fastest.networks["actor"], fastest.networks["critic"]]
    assert (int(found["pipelines"]), found["double"]) == (fastest.pipelines, "false")
    assert int(found["banks"]) * int(found["leaves"]) == 4**3
    assert 4 ** (int(found["levels"]) - 1) < int(found["leaves"]) <= 4 ** int(found["levels"])
    values = BLOCKS["map-accelerator"].parameters(found)
    assert {name: values[name] for name in ("network", "lanes", "updates")}.items() <= found.items()


def test_a_replay_of_a_million_transitions_has_several_sub_trees_with_the_leaves_that_they_need() -> None:
    found = explored_accelerator("hopper-ddpg", "u200", batch=64, fanout=16, levels=5, leaves=1_000_000)
    assert {name: found[name] for name in ("banks", "levels", "leaves")} == {
        "banks": "4",
        "levels": "5",
        "leaves": "250000",
    }
    with pytest.raises(UserError, match="leaves: found 4097; allowed: 0 to 4,096 with levels=3"):
        explored_accelerator("hopper-ddpg", "u200", batch=64, fanout=16, levels=3, leaves=4097)


def test_double_dqn_is_that_of_the_workload() -> None:
    assert explored_accelerator("cartpole-dqn", "u200", batch=32, fanout=16, levels=2)["double"] == "true"
    plain = explored_accelerator("4,64,64,2", "u200", batch=32, fanout=16, levels=2)
    assert (plain["network"], plain["double"]) == ("4-64-64-2", "false")
