"""EnvPool's environments, all of an actor's stepped in one native call (extra `envpool`).

EnvPool writes Gymnasium's environments anew in C++; those of the same id are the same: tests hold the trajectories of
both beside each other. It is asked to reset an environment whose episode is over, so that no step of an actor is spent
on it.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from harness.core.errors import UserError
from harness.environments import Seeded
from harness.environments.schema import Environment

Stepped = tuple[npt.NDArray, npt.NDArray, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]
"""Observations (N, ...), rewards (N,), terminated (N,), truncated (N,)."""


def check(environment: Environment, source: object) -> None:
    """See that EnvPool is installed and has an environment.

    Args:
        environment: the workload's `[environment]` table.
        source: to name in the error.

    Raises:
        UserError: it is not, or has none of that id and these arguments.
    """
    if find_spec("envpool") is None:
        raise UserError(
            source, "envpool", "not installed", "Gymnasium's environments, or the extra `envpool`"
        )
    try:
        EnvironmentPool(environment, [0]).close()
    except Exception as error:  # whatever EnvPool refuses an id, an argument or this machine with
        found = f"{environment.id!r} {environment.kwargs or ''} ({type(error).__name__}: {error})"
        raise UserError(
            source, "environment.id", found, "an environment that EnvPool has, or Gymnasium's"
        ) from error


class EnvironmentPool:
    """Environments of one kind that step together.

    Args:
        environment: the workload's `[environment]` table.
        seeds: of each.

    Attributes:
        action_space: of each.
    """

    def __init__(self, environment: Environment, seeds: Sequence[int]) -> None:
        import envpool

        # One thread: actors side by side are processes, and their number is the user's to choose.
        self._pool: Any = envpool.make(
            environment.id,
            env_type="gymnasium",
            num_envs=len(seeds),
            num_threads=1,
            seed=list(seeds),
            **environment.kwargs,
        )
        self.action_space: gymnasium.Space[Any] = self._pool.action_space

    @classmethod
    def of(cls, makers: Sequence[Seeded]) -> "EnvironmentPool":
        """The environments that some makers would make one by one."""
        return cls(makers[0].environment, [maker.seed for maker in makers])

    def reset(self, which: npt.NDArray[np.int64] | None = None) -> npt.NDArray:
        """The first observations of new episodes, of all or of those named, (n, ...)."""
        observations: npt.NDArray = (self._pool.reset() if which is None else self._pool.reset(which))[0]
        return observations

    def step(self, actions: npt.NDArray) -> Stepped:
        """Step all; the observation of an episode that is over is its own last one."""
        observations, rewards, terminated, truncated, _ = self._pool.step(actions)
        return observations, rewards, terminated, truncated

    def close(self) -> None:
        """End its thread."""
        self._pool.close()
