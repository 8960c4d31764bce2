"""Steps and checks that the tests of the step graph share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from placerl.primitives import algorithms
from placerl.primitives.algorithms import Algorithm
from placerl.primitives.graph.trace import leaf_names

SHAPES: dict[str, dict[str, Any]] = {
    "dqn": {"observation_shape": (4,), "action_size": 3, "network": {"hidden": (17, 8)}},
    "ddpg": {"observation_shape": (4,), "action_size": 2, "network": {"hidden": (17, 8)}},
    "td3": {"observation_shape": (5,), "action_size": 2, "network": {"hidden": (17, 8)}},
    "sac": {"observation_shape": (5,), "action_size": 2, "network": {"hidden": (17, 8)}},
    "ppo": {
        "observation_shape": (6,),
        "action_size": 2,
        "network": {"hidden": (16, 9), "activation": "tanh"},
    },
}
CASES = [(name, variant) for name in SHAPES if name in algorithms.names()
         for variant in algorithms.create(name, **SHAPES[name]).variants]  # fmt: skip


def make(name: str, dtype: torch.dtype) -> Algorithm:
    """The algorithm at the small shapes of these tests."""
    return algorithms.create(name, **SHAPES[name], dtype=dtype)


def step_function(algorithm: Algorithm, variant: str) -> Callable[..., Any]:
    """The pure step with named inputs, as `trace` wants it."""

    def step(state: Any, batch: Any, draws: Any) -> Any:
        return algorithm.gradient_step(state, batch, draws, variant)

    return step


def random_state(algorithm: Algorithm, generator: torch.Generator) -> Any:
    """A state as it may be after some steps: nothing is zero, second moments are positive."""

    def disturbed(leaf: Tensor) -> Tensor:
        if leaf.ndim == 0:
            return leaf + 3
        return leaf + 0.05 * torch.rand(leaf.shape, generator=generator, dtype=torch.float64).to(leaf)

    return pytree.tree_map(disturbed, algorithm.initialise(generator))


def random_batch(algorithm: Algorithm, batch_size: int, generator: torch.Generator) -> dict[str, Tensor]:
    """A batch of every column, with values in range."""
    batch = {}
    for name, (shape, dtype) in algorithm.columns(batch_size).items():
        draw = torch.rand(shape, generator=generator, dtype=torch.float64)
        if dtype == torch.int64:
            batch[name] = (draw * algorithm.action_size).long()
        elif dtype == torch.uint8:
            batch[name] = (draw * 256).to(dtype)
        elif name == "terminated":
            batch[name] = (draw < 0.3).to(dtype)
        elif name == "weight":
            batch[name] = draw.to(dtype)
        else:
            batch[name] = (2 * draw - 1).to(dtype)
    return batch


def named_leaves(prefix: str, tree: Any) -> dict[str, np.ndarray]:
    """The leaves of a pytree by their names in the graph."""
    leaves = pytree.tree_leaves(tree)
    return {name: leaf.detach().numpy() for name, leaf in zip(leaf_names(prefix, tree), leaves, strict=True)}
