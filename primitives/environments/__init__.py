"""Environments in C++ that step N at a time, with the same results as Gymnasium's, bit for bit.

Classic control and LunarLander need only NumPy; MuJoCo's environments need the `mujoco` package, and Gymnasium for its
models. The C++ interface is in `native/vector_env.hpp`.

    >>> import placerl
    >>> envs = placerl.environments.make_vec("CartPole-v1", 16)
    >>> observations, _ = envs.reset(seed=0)
    >>> observations.shape
    (16, 4)
"""

from typing import TYPE_CHECKING

from placerl.primitives.environments.factory import (
    backends,
    ids,
    make_native,
    refused_argument,
    sine_source,
    unavailable_reason,
)

if TYPE_CHECKING:
    from placerl.primitives.environments.vector import NativeVectorEnv

__all__ = [
    "backends",
    "ids",
    "make_native",
    "make_vec",
    "refused_argument",
    "sine_source",
    "unavailable_reason",
]


def make_vec(
    id: str,
    num_envs: int = 1,
    *,
    autoreset_mode: object = "NextStep",
    max_episode_steps: int | None = None,
    copy: bool = True,
    **arguments: object,
) -> "NativeVectorEnv":
    """Create a `gymnasium.vector.VectorEnv` whose environments step in one call to C++.

    Args:
        id: Gymnasium's id, one of `ids()`.
        num_envs: number of environments, at least 1.
        autoreset_mode: a `gymnasium.vector.AutoresetMode` or its value: "NextStep", "SameStep" or "Disabled".
        max_episode_steps: time limit, or 0 for none; None for that of Gymnasium's registry.
        copy: whether `reset` and `step` return a copy of the observations. If not, they return the array that the
            next call overwrites.
        arguments: those of `gymnasium.make` for the environment, such as `enable_wind=True`; only LunarLander takes
            any.

    Raises:
        ImportError: Gymnasium is not installed.
        ValueError: an argument that is not allowed, or an environment that is not available here.
    """
    from placerl.primitives.environments.vector import NativeVectorEnv

    return NativeVectorEnv(id, num_envs, autoreset_mode, max_episode_steps, arguments, copy=copy)
