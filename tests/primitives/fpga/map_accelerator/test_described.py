"""Layers as the texts of an export's parameters, and texts that describe none."""

import pytest

from placerl.primitives.fpga.learner_pipeline.layer_shape import LayerShape
from placerl.primitives.fpga.map_accelerator.described import described, networks_of
from placerl.primitives.fpga.map_accelerator.settings import layers_of

TEXTS = {"network": "11-256-256-3,14-256-256-1", "lanes": "8/128/2,8/128/1", "updates": "2/4/1,1/4/1"}


def test_texts_describe_the_layers_of_which_they_are_made() -> None:
    actor, critic = networks_of(**TEXTS)
    assert actor[1] == LayerShape(256, 256, 128, 4)
    assert [layer.updates for layer in critic] == [1, 4, 1]
    assert described([actor, critic]) == TEXTS


def test_one_number_is_for_all_layers_as_far_as_they_have_outputs_and_lanes() -> None:
    assert networks_of("cartpole", "8", "0") == [layers_of((4, 8, 8, 2), 8)]
    actor, critic = networks_of("cartpole-ddpg", "4", "2")
    assert [(layer.lanes, layer.updates) for layer in actor] == [(4, 2), (4, 2), (1, 1)]
    assert [layer.inputs for layer in critic] == [5, 8, 8]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"network": "4"}, "network: found '4'; allowed: one or two"),
        ({"network": "4-2,4-2,4-2"}, "network: found '4-2,4-2,4-2'; allowed: one or two"),
        (
            {"lanes": "8/128,8/128/1"},
            "lanes: found '8/128,8/128/1'; allowed: one number, or those of 3 and 3",
        ),
        ({"lanes": "8/257/2,8/128/1"}, "lanes: found 257; allowed: 1 to 256"),
        ({"updates": "3/4/1,1/4/1"}, "updates: found 3; allowed: 8, 4, 2, 1"),
    ],
)
def test_texts_of_no_layers_are_refused(changed: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        networks_of(**(TEXTS | changed))
