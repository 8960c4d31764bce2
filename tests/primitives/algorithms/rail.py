"""A mass on a rail, to be pushed to its middle and held there: a control task that is learnt in a second."""

import gymnasium
import numpy as np

from placerl.primitives.learner import Learner

LENGTH = 40
"""Steps of an episode that does not end before: the most that it returns."""
EVALUATED = 20
STEP_S = 0.2
MIDDLE = np.array([1.0, 0.0])


class Rail:
    """Some rails, each with a unit mass on frictionless wheels.

    An observation is the position, 0 to 2 m, and the velocity, in m/s, (n, 2) float32. A push of -1 to 1 N lasts
    0.2 s. A step returns 1 minus the distance from the middle in metres. An episode ends without a reward at either
    end of the rail and is truncated after 40 steps. It starts within 0.5 m of the middle, at up to 0.5 m/s. A push
    that never changes leaves the rail within 11 steps.
    """

    def __init__(self, number: int, *, discrete: bool, seed: int) -> None:
        """Start `number` episodes; discrete actions are 0 and 1 for a push of -1 and 1 N."""
        self.discrete = discrete
        self._rng = np.random.default_rng(seed)
        self._state = np.zeros((number, 2))
        self._steps = np.zeros(number, int)
        self.restart(np.ones(number, bool))

    @property
    def observation(self) -> np.ndarray:
        """(n, 2) float32."""
        return (self._state + MIDDLE).astype(np.float32)

    def restart(self, which: np.ndarray) -> None:
        """Start new episodes on the rails in the mask."""
        self._state[which] = self._rng.uniform(-0.5, 0.5, (which.sum(), 2))
        self._steps[which] = 0

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Next observations (n, 2) and rewards (n,), float32, and the masks of terminated and truncated episodes."""
        push = 2.0 * action - 1 if self.discrete else np.clip(action[:, 0], -1, 1)
        self._state[:, 1] += STEP_S * push
        self._state[:, 0] += STEP_S * self._state[:, 1]
        self._steps += 1
        distance = np.abs(self._state[:, 0])
        terminated = distance > 1
        reward = np.where(terminated, 0, 1 - distance).astype(np.float32)
        return self.observation, reward, terminated, self._steps >= LENGTH


def mean_return(agent: Learner) -> float:
    """Return the mean of greedy episodes from the same 20 starts."""
    rail = Rail(EVALUATED, discrete=agent.algorithm.discrete, seed=1000)
    running, total = np.ones(EVALUATED, bool), 0.0
    for _ in range(LENGTH):
        _, reward, terminated, _ = rail.step(agent.act(rail.observation))
        total += float(reward[running].sum())
        running &= ~terminated
        rail.restart(terminated)
    return total / EVALUATED


class RailEnvironment(gymnasium.Env):
    """One rail with discrete actions, as Gymnasium has environments."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        """Start an episode."""
        if seed is not None or not hasattr(self, "_rail"):
            self._rail = Rail(1, discrete=True, seed=seed or 0)
        self._rail.restart(np.ones(1, bool))
        return self._rail.observation[0], {}

    def step(self, action):
        """Push for 0.2 s."""
        observation, reward, terminated, truncated = self._rail.step(np.array([action]))
        return observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), {}
