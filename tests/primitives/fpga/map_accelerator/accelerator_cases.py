"""Sizes, weights and transitions for the tests of MAP's accelerator."""

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga.learner_pipeline.layer_shape import FORMAT, LayerShape
from placerl.primitives.fpga.map_accelerator.settings import AcceleratorSettings, layers_of

CARTPOLE = AcceleratorSettings(
    (LayerShape(4, 8, 2), LayerShape(8, 8, 2), LayerShape(8, 2, 1)),
    pipelines=2,
    banks=2,
    levels=3,
    double=True,
)
"""CartPole's network of 8-8, on two pipelines and two banks, with double DQN."""
DDPG = AcceleratorSettings(
    layers_of((6, 8, 8, 1), 2), actor=layers_of((4, 8, 8, 2), 2), pipelines=2, banks=2, levels=3
)
"""DDPG's networks of 8-8 for a state of four numbers and an action of two."""


def first_weights(settings: AcceleratorSettings, rng: np.random.Generator) -> list[NDArray[np.float32]]:
    """(outputs, inputs + 1) of each layer."""
    return [
        rng.uniform(-0.5, 0.5, (layer.outputs, layer.inputs + 1)).astype(np.float32)
        for layer in settings.networks
    ]


def transitions(
    settings: AcceleratorSettings, count: int, rng: np.random.Generator
) -> dict[str, NDArray[np.int64]]:
    """Raw values of `count` transitions, a fifth of which end their episode."""
    action = rng.integers(0, settings.actions, count)
    if settings.actor:
        action = FORMAT.from_float(rng.uniform(-1, 1, (count, settings.actions))).raw
    return {
        "state": FORMAT.from_float(rng.normal(size=(count, settings.states))).raw,
        "next_state": FORMAT.from_float(rng.normal(size=(count, settings.states))).raw,
        "action": action,
        "reward": FORMAT.from_float(rng.normal(size=count)).raw,
        "terminated": (rng.random(count) < 0.2).astype(np.int64),
    }
