"""Steps all environments of an actor in one call to C++, with the native environments (`primitives.environments`).

Their trajectories equal those of Gymnasium with the same seeds, bit for bit, so a training differs in its speed
only. An environment whose episode is over is reset by an explicit call, so that no step of an actor is spent on it.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import gymnasium
import numpy as np
import numpy.typing as npt
from placerl.primitives._native import environments as native

from placerl.harness.core.errors import UserError
from placerl.harness.environments import Seeded
from placerl.harness.environments.env_pool import Stepped
from placerl.harness.environments.schema import Environment
from placerl.primitives import environments


class Pool(Protocol):
    """The interface of environments of one kind that are stepped together, EnvPool's or the native ones."""

    action_space: gymnasium.Space[Any]

    def reset(self, which: npt.NDArray[np.int64] | None = None) -> npt.NDArray:
        """Begin new episodes, and return their first observations, (n, ...)."""

    def step(self, actions: npt.NDArray) -> Stepped:
        """Step all environments.

        Returns:
            Observations, rewards, terminated, truncated. If an episode is over, the observation is its last one.
        """

    def close(self) -> None:
        """Release the resources of the environments, such as threads."""


def refusal(environment: Environment) -> tuple[str, str] | None:
    """Return which field of an environment native code does not have, and what it holds; None if it has all."""
    if reason := environments.unavailable_reason(environment.id):
        return "environment.id", f"{environment.id!r} ({reason})"
    if reason := environments.refused_argument(environment.id, environment.kwargs):
        return "environment.kwargs", f"{environment.kwargs} ({reason})"
    return None


def check(environment: Environment, source: object) -> None:
    """Check that an environment is among the native ones.

    Raises:
        UserError: there is no native environment with this id and these arguments, or it cannot run here.
    """
    if refused := refusal(environment):
        raise UserError(source, *refused, "without native environments: Gymnasium's")


def make(environment: Environment, count: int, autoreset: str) -> native.VectorEnv:
    """Create the C++ object that steps `count` environments of a workload, which `refusal` does not refuse.

    Args:
        autoreset: when the next episode begins: "next_step", "same_step" or "disabled".
    """
    return environments.make_native(environment.id, count, autoreset=autoreset, **environment.kwargs)


class NativePool:
    """Environments of one kind that C++ steps together."""

    def __init__(self, environment: Environment, seeds: Sequence[int]) -> None:
        from placerl.primitives.environments.vector import spaces

        env = make(environment, len(seeds), "disabled")
        self.action_space: gymnasium.Space[Any] = spaces(env)[1]
        self._env = env
        self._seeds: npt.NDArray[np.uint64] | None = np.array(seeds, np.uint64)
        self._actions = np.int64 if env.action_count else np.float32
        self._observations = np.zeros(
            (len(seeds), env.observation_width), np.float64 if env.float64 else np.float32
        )
        self._rewards = np.zeros(len(seeds))
        self._terminated, self._truncated = np.zeros((2, len(seeds)), np.bool_)
        self._buffers = native.Buffers(
            env, self._observations, self._rewards, self._terminated, self._truncated
        )

    @classmethod
    def of(cls, makers: Sequence[Seeded]) -> "NativePool":
        """Return a pool with the environments that `makers` would create one by one, all for the same workload."""
        return cls(makers[0].environment, [maker.seed for maker in makers])

    def reset(self, which: npt.NDArray[np.int64] | None = None) -> npt.NDArray:
        """Begin new episodes, and return their first observations, (n, ...)."""
        mask = None
        if which is not None:
            mask = np.zeros(len(self._rewards), np.bool_)
            mask[which] = True
        if self._seeds is not None:
            # As `Seeded` does: reset with the seed, and once more without one where the first episode begins.
            self._env.reset(self._seeds, None, self._observations)
            self._seeds = None
        self._env.reset(None, mask, self._observations)
        return (self._observations if which is None else self._observations[which]).copy()

    def step(self, actions: npt.NDArray) -> Stepped:
        """Step all environments.

        Returns:
            Observations, rewards, terminated, truncated. The arrays are overwritten by the next step. If an episode is
            over, the observation is its last one.

        Raises:
            ValueError: an action is outside the action space.
        """
        converted = np.ascontiguousarray(actions, self._actions)
        invalid = self._env.first_invalid(converted)
        if invalid >= 0:
            raise ValueError(f"actions: found {converted.flat[invalid]}; allowed: {self.action_space}")
        self._env.step(converted, self._buffers)
        return self._observations, self._rewards, self._terminated, self._truncated

    def close(self) -> None:
        """Do nothing, because the native environments have neither threads nor files to close."""
