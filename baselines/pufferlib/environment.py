"""PufferLib's cart-pole in C, which steps all environments in one call."""

from importlib.metadata import version

import numpy as np
from pufferlib.ocean.cartpole.cartpole import Cartpole

VERSION = f"pufferlib {version('pufferlib')}"
NOTE = "float32, with constants of CartPole-v1 (install.py); logs once in 1,024 steps"


class CartPoles:
    """N cart-poles of PufferLib that step together, with the methods that the benchmark of environments calls.

    These are `draw(rng)`, which returns an action for each cart-pole, and `step(actions)`, which returns observations
    and rewards.
    """

    def __init__(self, count):
        self._cartpoles = Cartpole(num_envs=count, report_interval=1024, seed=0)
        self._cartpoles.reset(seed=0)
        self._count = count

    def draw(self, rng):
        return rng.integers(0, 2, self._count).astype(np.int32)

    def step(self, actions):
        observations, rewards, *_ = self._cartpoles.step(actions)
        return observations, rewards


def create(id, count):
    """Return `count` environments that step together.

    Raises:
        ValueError: the id names another environment.
    """
    if id != "CartPole-v1":
        raise ValueError(f"id: found {id}; allowed: CartPole-v1, the one that install.py builds")
    return CartPoles(count)
