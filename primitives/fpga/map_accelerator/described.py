"""Layers of MAP's accelerator as texts, which are the parameters of its export. Needs no hardware tools."""

from collections.abc import Sequence
from itertools import pairwise

from placerl.primitives.fpga.learner_pipeline.layer_shape import LayerShape
from placerl.primitives.fpga.map_accelerator.settings import ACTORS, NETWORKS

Networks = Sequence[tuple[LayerShape, ...]]
"""The layers of a Q network, or of DDPG's actor and critic, in this order."""


def networks_of(network: str, lanes: str, updates: str) -> Networks:
    """Return the layers that texts describe; "," separates actor and critic.

    Args:
        network: a name of `NETWORKS`, or the neurons of the layers, such as "11-256-256-3,14-256-256-1".
        lanes: multipliers of each layer's units, such as "8/128/2,8/128/1", or one number for all layers, of which a
            layer with fewer outputs has as many as outputs.
        updates: weights of each layer that are updated per cycle, or one number for all layers, of which a layer with
            fewer lanes has as many as lanes; 0: as many as lanes.

    Raises:
        ValueError: a number is out of range, or there are not as many as layers.
    """
    sizes = _numbers(network, "-") if network not in NETWORKS else [NETWORKS[network]]
    if network in ACTORS:
        sizes = [ACTORS[network], *sizes]
    if len(sizes) > 2 or any(len(neurons) < 2 for neurons in sizes):
        raise ValueError(
            f"network: found {network!r}; allowed: one or two, with two or more numbers of neurons each"
        )
    every_lane = _per_layer("lanes", lanes, [neurons[1:] for neurons in sizes])
    every_update = _per_layer("updates", updates, every_lane)
    return [
        tuple(LayerShape(*pair, *units) for pair, *units in zip(pairwise(neurons), *of_layers, strict=True))
        for neurons, *of_layers in zip(sizes, every_lane, every_update, strict=True)
    ]


def described(networks: Networks) -> dict[str, str]:
    """Return the texts `network`, `lanes` and `updates` from which `networks_of` returns the same layers."""

    def joined(separator: str, numbers: Sequence[Sequence[int]]) -> str:
        return ",".join(separator.join(map(str, of_network)) for of_network in numbers)

    return {
        "network": joined("-", [[of[0].inputs, *(layer.outputs for layer in of)] for of in networks]),
        "lanes": joined("/", [[layer.lanes for layer in of] for of in networks]),
        "updates": joined("/", [[layer.updates for layer in of] for of in networks]),
    }


def _numbers(text: str, separator: str) -> list[Sequence[int]]:
    return [tuple(map(int, part.split(separator))) for part in text.split(",")]


def _per_layer(name: str, text: str, most: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """Return a number for each layer of each network: those of the text, or its one number, at most that of `most`."""
    numbers = _numbers(text, "/")
    if numbers == [(numbers[0][0],)]:
        return [[min(numbers[0][0], highest) for highest in of_network] for of_network in most]
    if [len(of_network) for of_network in numbers] != [len(of_network) for of_network in most]:
        layers = " and ".join(str(len(of_network)) for of_network in most)
        raise ValueError(f"{name}: found {text!r}; allowed: one number, or those of {layers} layers")
    return numbers
