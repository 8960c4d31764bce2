"""Algorithms with small networks, random batches for them, and precisions that use everything there is."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from placerl.primitives import algorithms
from placerl.primitives.algorithms import Algorithm
from placerl.primitives.quantization import Q, precision
from placerl.primitives.quantization.precision import Precision

BATCH_SIZE = 12
KINDS: Mapping[str, tuple[str, str]] = {
    "ddpg": ("ddpg", "continuous"),
    "td3": ("td3", "continuous"),
    "sac": ("sac", "continuous"),
    "ppo": ("ppo", "continuous"),
    "ppo discrete": ("ppo", "discrete"),
    "dqn": ("dqn", "discrete"),
}
PRECISIONS: Mapping[str, Precision] = {
    "fixed 32": precision.fixed_32(),
    "fixed 16": precision.fixed_16(),
    "dynamic": precision.dynamic(2),
    "fixed-point moments": Precision(mean=Q(32, 24), square=Q(32, 30)),
    "8-bit weights too": precision.quarl(2),
    "narrow everywhere": Precision(activation_bits=16, weight_bits=12, error_bits=12, delay=2),
}


def algorithm(kind: str, hidden: tuple[int, ...] = (40, 33)) -> Algorithm:
    """One of `KINDS`, with layers of no round size."""
    name, action_kind = KINDS[kind]
    return algorithms.create(
        name, observation_shape=(5,), action_size=3, action_kind=action_kind, network={"hidden": hidden}
    )


def batch(made: Algorithm, rng: np.random.Generator, size: int = BATCH_SIZE) -> dict[str, Any]:
    """Random columns of the right shapes."""
    columns: dict[str, Any] = {}
    for name, (shape, dtype) in made.columns(size).items():
        if name == "weight":
            continue
        if name == "terminated":
            columns[name] = (rng.random(shape) < 0.1).astype(np.float32)
        elif dtype == torch.int64:
            columns[name] = rng.integers(0, made.action_size, shape)
        else:
            columns[name] = rng.standard_normal(shape).astype(np.float32)
    return columns
