"""Steps all environments of an actor in one call, with EnvPool (needs the extra `envpool`).

EnvPool implements Gymnasium's environments in C++. Tests compare the trajectories of both for the same id. An
environment whose episode is over is reset by an explicit call, so that no step of an actor is spent on it.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from placerl.harness.core.errors import UserError
from placerl.harness.environments import Seeded, contract
from placerl.harness.environments.schema import Environment

Stepped = tuple[npt.NDArray, npt.NDArray, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]
"""Observations (N, ...), rewards (N,), terminated (N,), truncated (N,)."""


def check(environment: Environment, source: object) -> None:
    """Check that EnvPool is installed and has an environment.

    Raises:
        UserError: EnvPool is not installed, or has no environment with this id and these arguments.
    """
    if find_spec("envpool") is None:
        raise UserError(
            source, "envpool", "not installed", "Gymnasium's environments, or the extra `envpool`"
        )
    try:
        EnvironmentPool(environment, [0]).close()
    except Exception as error:  # EnvPool raises any exception for a wrong id, argument or machine
        found = f"{environment.id!r} {environment.kwargs or ''} ({type(error).__name__}: {error})"
        raise UserError(
            source, "environment.id", found, "an environment that EnvPool has, or Gymnasium's"
        ) from error


class EnvironmentPool:
    """Environments of one kind that EnvPool steps together."""

    def __init__(self, environment: Environment, seeds: Sequence[int]) -> None:
        import envpool

        # One thread: several actors are processes, and the user chooses their number.
        self._pool: Any = envpool.make(
            environment.id,
            env_type="gymnasium",
            num_envs=len(seeds),
            num_threads=1,
            seed=list(seeds),
            **environment.kwargs,
        )
        self.action_space: gymnasium.Space[Any] = self._pool.action_space
        self._named = f"environment {environment.id}"
        self._number = len(seeds)

    @classmethod
    def of(cls, makers: Sequence[Seeded]) -> "EnvironmentPool":
        """Return a pool with the environments that `makers` would create one by one, all for the same workload."""
        return cls(makers[0].environment, [maker.seed for maker in makers])

    def reset(self, which: npt.NDArray[np.int64] | None = None) -> npt.NDArray:
        """Begin new episodes, and return their first observations, (n, ...).

        Args:
            which: (n,) indices of the environments to reset; None for all.

        Raises:
            UserError: an observation is not of the observation space's shape and type, or not finite.
        """
        observations: npt.NDArray = (self._pool.reset() if which is None else self._pool.reset(which))[0]
        self._check(self._number if which is None else len(which), observations)
        return observations

    def step(self, actions: npt.NDArray) -> Stepped:
        """Step all environments.

        Args:
            actions: (N,) or (N, A), one action for each environment.

        Returns:
            Observations, rewards, terminated, truncated. If an episode is over, the observation is its last one.

        Raises:
            UserError: the environments returned something else, or a number that is not finite.
        """
        observations, rewards, terminated, truncated, _ = self._pool.step(actions)
        self._check(self._number, observations, rewards, terminated, truncated)
        return observations, rewards, terminated, truncated

    def close(self) -> None:
        """End the pool's thread."""
        self._pool.close()

    def _check(self, number: int, *returned: npt.NDArray) -> None:
        contract.check_pool(self._named, self._pool.observation_space, number, returned)
