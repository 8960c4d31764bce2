"""Reinforcement learning algorithms, each written once, in PyTorch, in a file; `actor_critic` has what several share.

`create` returns an algorithm for an environment's shapes. Its gradient step is a pure function of (state, batch,
draws). `primitives.learner` runs the step in PyTorch, or as a traced graph on other backends.
"""

from collections.abc import Mapping
from typing import Any

from placerl.primitives.interrupts import whole_imports

with whole_imports():
    import torch

from placerl.primitives import checks
from placerl.primitives.algorithms import ddpg, dqn, ppo, sac, td3
from placerl.primitives.algorithms.base import Algorithm, Batch, Column, Hyperparameters, StepResult
from placerl.primitives.algorithms.networks import NetworkDescription

_ALGORITHMS: dict[str, tuple[type[Algorithm], type[Hyperparameters]]] = {
    "dqn": (dqn.DQN, dqn.DqnHyperparameters),
    "ddpg": (ddpg.DDPG, ddpg.DdpgHyperparameters),
    "td3": (td3.TD3, td3.Td3Hyperparameters),
    "sac": (sac.SAC, sac.SacHyperparameters),
    "ppo": (ppo.PPO, ppo.PpoHyperparameters),
}

__all__ = ["Algorithm", "Batch", "Column", "StepResult", "create", "names"]


def names() -> tuple[str, ...]:
    """Return the names of the algorithms that `create` knows."""
    return tuple(_ALGORITHMS)


def create(
    name: str,
    *,
    observation_shape: tuple[int, ...],
    action_size: int,
    network: NetworkDescription | Mapping[str, Any] | None = None,
    hyperparameters: Hyperparameters | Mapping[str, Any] | None = None,
    action_kind: str | None = None,
    dtype: torch.dtype = torch.float32,
    n_step: bool = False,
) -> Algorithm:
    """Create an algorithm for an environment's shapes.

    Args:
        name: one of `names()`.
        observation_shape: (S,), or (channels, height, width) for pixels.
        action_size: components of a continuous action, or the number of discrete ones; at least 1.
        network: kind and sizes of the networks, such as {"hidden": (64, 64)}; two hidden layers of 256 units
            by default.
        hyperparameters: values by name, such as {"gamma": 0.98}; the others keep the algorithm's defaults.
        action_kind: "continuous" or "discrete"; by default the first kind that the algorithm supports.
        dtype: float32 or float64.
        n_step: whether batches hold n-step transitions, with their column `discount`; not for PPO.

    Raises:
        ValueError: an unknown name or a value out of range; the message names the argument and what is allowed.
    """
    checks.one_of("name", name, _ALGORITHMS)
    if not isinstance(observation_shape, (tuple, list)):
        raise ValueError(f"observation_shape: found {observation_shape!r}; allowed: a tuple of integers")
    for size in observation_shape:
        checks.whole("observation_shape", size, 1)
    checks.whole("action_size", action_size, 1)
    checks.truth("n_step", n_step)
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype: found {dtype}; allowed: torch.float32, torch.float64")
    algorithm, settings = _ALGORITHMS[name]
    if n_step and name == "ppo":
        raise ValueError("n_step: found True; allowed: False for ppo, which has no replay")
    action_kind = algorithm.action_kinds[0] if action_kind is None else action_kind
    checks.one_of(f"action_kind for {name}", action_kind, algorithm.action_kinds)
    instance = algorithm(
        observation_shape=tuple(map(int, observation_shape)),
        action_size=int(action_size),
        network=NetworkDescription.of({} if network is None else network),
        hyperparameters=settings.of(hyperparameters),
        dtype=dtype,
        action_kind=action_kind,
        n_step=n_step,
    )
    # An observation that the network cannot take must raise here, not at the first step.
    _ = instance.networks
    return instance
