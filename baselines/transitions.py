"""Whether transitions that a replay gave are the environment's own: each is stepped again from what was seen."""

import gymnasium
import numpy as np

TOLERANCE = 1e-4
"""Of a number that was rounded to float32 on its way; what two different transitions differ by is far larger."""


def misfits(name, observation, action, reward, following, terminated):
    """How many of n transitions the environment would not make.

    Args:
        name: CartPole-v1 or Pendulum-v1.
        observation, following: (n, S), before and after the step.
        action: (n,) int, or (n, 1) as the environment takes it.
        reward, terminated: (n,).
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
    else:  # a pendulum's angle is seen by its cosine and sine
        cosine, sine, speed = map(float, observation)
        environment.state = np.array([np.arctan2(sine, cosine), speed])
    seen, got, ended, _, _ = environment.step(action)
    close = np.allclose([*seen, got], [*following, reward], rtol=TOLERANCE, atol=TOLERANCE)
    return close and ended == bool(terminated)
