"""An actor whose environments are all stepped in one call, by EnvPool or by C++ code."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from placerl.harness.environments.native_pool import Pool
from placerl.harness.runtime.actors.actor import Actor, Episode
from placerl.primitives.replay.storage import FieldSpec


class PooledActor(Actor):
    """An `Actor` whose environments form one pool, which steps all of them in one call.

    Args:
        pool: the environments, which step all together in one call.
        rng: source of the random numbers of actions.
        fields: columns of a transition, with shape and dtype.
        local_storage: vector steps (steps of all environments) whose transitions the actor can hold.
        clip: whether the policy's continuous actions may be outside [-1, 1] and are clipped for the environments.
        columns: arrays for the transitions, (local_storage * environments, ...) each; by default new arrays.
    """

    def __init__(
        self,
        pool: Pool,
        rng: np.random.Generator,
        fields: Mapping[str, FieldSpec],
        local_storage: int,
        *,
        clip: bool = False,
        columns: Mapping[str, npt.NDArray] | None = None,
    ) -> None:
        self._pool = pool
        self._prepare(pool.reset(), pool.action_space, rng, fields, local_storage, clip, columns)

    def _step_environments(self, row: int, actions: npt.NDArray) -> None:
        columns, returns = self._columns, self._returns
        number = len(returns)
        observations, rewards, terminated, truncated = self._pool.step(actions)
        rows = slice(row, row + number)
        columns["next_observation"][rows] = observations
        columns["reward"][rows] = rewards
        columns["terminated"][rows] = terminated
        if self._notes_truncation:
            columns["truncated"][rows] = truncated
        self._observations[:] = observations
        for i, reward in enumerate(rewards.tolist()):
            returns[i] += reward
        over = np.flatnonzero(terminated | truncated)
        for i in over.tolist():
            self._episodes.append(Episode(self.environment_steps + i + 1, returns[i]))
            returns[i] = 0.0
        self.environment_steps += number
        if over.size:
            self._observations[over] = self._pool.reset(over)

    def close(self) -> None:
        """Close the environments."""
        self._pool.close()
