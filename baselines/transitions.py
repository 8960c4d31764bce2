"""Checks the transitions in a replay: the environment is stepped again from each, and must give the same result."""

import gymnasium
import numpy as np

TOLERANCE = 1e-4
"""Relative and absolute tolerance, for numbers rounded to float32. Different transitions differ by far more."""


def misfits(name, observation, action, reward, following, terminated):
    """Count the transitions, of n, for which the environment gives another result from the same state and action.

    Args:
        name: CartPole-v1 or Pendulum-v1.
        observation, following: (n, S), observations before and after the step.
        action: (n,) int for CartPole-v1; (n, 1) float for Pendulum-v1, in the environment's own range.
        reward, terminated: (n,), results of the step.
    """
    environment = gymnasium.make(name).unwrapped
    environment.reset(seed=0)
    columns = [np.asarray(column) for column in (observation, action, reward, following, terminated)]
    return sum(not _fits(environment, *row) for row in zip(*columns, strict=True))


def _fits(environment, observation, action, reward, following, terminated):
    if isinstance(environment.action_space, gymnasium.spaces.Discrete):
        environment.state = np.asarray(observation, np.float64)
        environment.steps_beyond_terminated = None
        action = int(action)
    else:  # a pendulum's observation holds cosine and sine of its angle
        cosine, sine, speed = map(float, observation)
        environment.state = np.array([np.arctan2(sine, cosine), speed])
    seen, got, ended, _, _ = environment.step(action)
    close = np.allclose([*seen, got], [*following, reward], rtol=TOLERANCE, atol=TOLERANCE)
    return close and ended == bool(terminated)
