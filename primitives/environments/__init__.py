"""Environments in C++ that step N at a time, equal bit for bit to Gymnasium's (`native/vector_env.hpp`).

Classic control needs NumPy alone; MuJoCo's environments need the `mujoco` package, and Gymnasium for its models.

    >>> from primitives.environments import make_vec
    >>> envs = make_vec("CartPole-v1", 16)
    >>> observations, _ = envs.reset(seed=0)
    >>> observations.shape
    (16, 4)
"""

from typing import TYPE_CHECKING

from primitives.environments.factory import ids, make_native, sine_source, unavailable_reason

if TYPE_CHECKING:
    from primitives.environments.vector import NativeVectorEnv

__all__ = ["ids", "make_native", "make_vec", "sine_source", "unavailable_reason"]


def make_vec(
    id: str,
    num_envs: int = 1,
    *,
    autoreset_mode: object = "NextStep",
    max_episode_steps: int | None = None,
    copy: bool = True,
) -> "NativeVectorEnv":
    """Create a `gymnasium.vector.VectorEnv` whose environments step in one call to C++.

    Args:
        id: Gymnasium's id, one of `ids()`; the environment has Gymnasium's default arguments.
        num_envs: number of environments, at least 1.
        autoreset_mode: a `gymnasium.vector.AutoresetMode` or its value: "NextStep", "SameStep" or "Disabled".
        max_episode_steps: time limit, or 0 for none; None for that of Gymnasium's registry.
        copy: whether `reset` and `step` return copies of the observations, or the array that they write.

    Raises:
        ImportError: Gymnasium is not installed.
        ValueError: an argument that is not allowed, or an environment that is not available here.
    """
    from primitives.environments.vector import NativeVectorEnv

    return NativeVectorEnv(id, num_envs, autoreset_mode, max_episode_steps, copy=copy)
