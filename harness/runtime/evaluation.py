"""What a training has learnt: greedy episodes after it, its best stretch of episodes, and when it solved its task."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from placerl.harness import environments
from placerl.harness.measure.episodes import EPISODES, running_means
from placerl.harness.runtime.actors.actor import Episode, scale_of
from placerl.harness.runtime.training import Progress
from placerl.harness.workloads import custom_task
from placerl.harness.workloads.custom_task import CustomTask
from placerl.harness.workloads.task import Task, columns_of

LIMIT_S = 10.0
"""Seconds after which an evaluation begins no further episode and cuts the one that runs: frames take minutes."""
_LARGEST_SEED = 2**30

Act = Callable[[npt.NDArray], npt.NDArray]
"""Maps one observation to the greedy action: a whole number, or (A,) in [-1, 1], beyond which it is clipped."""


class Evaluation:
    """An evaluator that runs greedy episodes of a task, from the same random starts each time.

    Args:
        item: the task.
        seed: seed of the starts, at least 0.
    """

    def __init__(self, item: Task, seed: int) -> None:
        self._seed = seed
        if isinstance(item, CustomTask):
            self._environment = custom_task.seeded(item.make_environment, seed)
        else:
            self._environment = environments.make(item.environment, seed)
        self._dtype = columns_of(item)["observation"].dtype
        self._space = self._environment.action_space
        self._scale = scale_of(self._space)

    def action(self, act: Act, observation: Any) -> Any:
        """Return the greedy action for one observation of the environment, in the environment's action space.

        Raises:
            UserError: a part of an observation that consists of several arrays is wrong.
            ValueError: the observation has another shape, or is not finite.
        """
        environment = self._environment
        if isinstance(environment, custom_task.Flattened):
            observation = environment.flat(observation)
        return self._taken(act(np.asarray(observation, self._dtype)))

    def returns(self, act: Act, starts: int = EPISODES, limit_s: float = float("inf")) -> list[float]:
        """Return the undiscounted return of one greedy episode from each start, in the order of the starts.

        Args:
            act: chooses the actions.
            starts: number of random starts, at least 1.
            limit_s: seconds after which no further episode is run, and the one that runs is left out; fewer returns, or
                none, are then returned.
        """
        until_s = perf_counter() + limit_s
        returns: list[float] = []
        for number in range(starts):
            observation, _ = self._environment.reset(seed=self._seed % _LARGEST_SEED + number)
            total, over = 0.0, False
            while not over:
                action = act(np.asarray(observation, self._dtype))
                observation, reward, terminated, truncated, _ = self._environment.step(self._taken(action))
                total += float(reward)
                over = terminated or truncated
                if perf_counter() > until_s and not over:
                    return returns
            returns.append(total)
        return returns

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()

    def _taken(self, action: npt.NDArray) -> Any:
        """Return an action of the policy as the environment takes it: within its space, and of its type (`Actor`)."""
        if not isinstance(self._space, gymnasium.spaces.Box):
            return int(action)
        clipped = np.clip(action, -1, 1)
        if self._scale is not None:
            low, half_range = self._scale
            clipped = low + (clipped + 1) * half_range
        return clipped.astype(self._space.dtype, copy=False)


def best_mean(episodes: Sequence[Episode]) -> float | None:
    """Return the largest mean return of `EPISODES` episodes in a row; None if fewer have ended.

    Args:
        episodes: the episodes of a training, in the order in which they ended.
    """
    means = running_means([episode.episode_return for episode in episodes])
    return float(means.max()) if means.size else None


@dataclass(frozen=True)
class Solved:
    """When a training first reached its task's threshold.

    Attributes:
        environment_steps: environment steps, over all environments, from the beginning of training.
        wall_s: seconds of training, with its warm-up.
    """

    environment_steps: int
    wall_s: float


def solved(stretches: Sequence[Progress], threshold: float) -> Solved | None:
    """Return when the mean return of `EPISODES` episodes in a row first reached a threshold; None if it never did.

    Within a stretch every environment step is taken to last equally long.

    Args:
        stretches: the whole training, its warm-up first.
        threshold: the return at which the task counts as solved.
    """
    episodes = [episode for stretch in stretches for episode in stretch.episodes]
    reached = np.flatnonzero(running_means([episode.episode_return for episode in episodes]) >= threshold)
    if not reached.size:
        return None
    at = episodes[int(reached[0]) + EPISODES - 1].environment_step
    begun, wall_s = 0, 0.0
    for stretch in stretches:
        if at <= begun + stretch.environment_steps:
            return Solved(at, wall_s + stretch.wall_s * (at - begun) / stretch.environment_steps)
        begun, wall_s = begun + stretch.environment_steps, wall_s + stretch.wall_s
    return Solved(at, wall_s)
