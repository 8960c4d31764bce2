"""Say how the random numbers of an algorithm's exploring actions are drawn, so that actors in C++ can draw them."""

from typing import NamedTuple

import numpy as np
import torch

from placerl.primitives.algorithms import Algorithm
from placerl.primitives.algorithms.custom import CustomAlgorithm
from placerl.primitives.algorithms.dqn import DQN


class Exploration(NamedTuple):
    """How exploring actions are drawn, in the order in which native code takes it.

    Attributes:
        epsilon_greedy: whether a random action wins with a probability (`DQN.draw_exploration`); otherwise the numbers
            are standard normal noise (`Algorithm.draw_exploration`).
        first, last: that probability at the first environment step and from step `steps` on.
        steps: environment steps over which it changes linearly.
    """

    epsilon_greedy: bool = False
    first: float = 0.0
    last: float = 0.0
    steps: int = 1


def exploration_of(algorithm: Algorithm, *, n_step: bool = False) -> Exploration:
    """Return how the random numbers of an algorithm's exploring actions are drawn.

    Args:
        n_step: whether n-step transitions can be made.

    Raises:
        ValueError: actors in C++ cannot act for the algorithm (`refusal`).
    """
    if reason := refusal(algorithm, n_step=n_step):
        raise ValueError(f"algorithm: found {reason}")
    if not isinstance(algorithm, DQN):
        return Exploration()
    settings = algorithm.hyperparameters
    return Exploration(True, settings.epsilon_initial, settings.epsilon_final, settings.exploration_steps)


def refusal(algorithm: Algorithm, *, n_step: bool = False) -> str:
    """Return why actors in C++ cannot act for an algorithm, as text; empty if they can.

    Only known draws are accepted: a method that overrides one may draw from any distribution under the same name.

    Args:
        n_step: whether n-step transitions can be made.
    """
    if algorithm.dtype != torch.float32 or len(algorithm.observation_shape) != 1:
        return "pixels or float64; allowed: vectors and float32"
    if algorithm.n_step and not n_step:
        return "n-step transitions; allowed: those of one step"
    kind = type(algorithm)
    draw = kind.draw_exploration
    drawn = ", ".join(algorithm.draw_exploration(1, 0, np.random.default_rng(0)))
    normal = drawn == "noise" and draw in (Algorithm.draw_exploration, CustomAlgorithm.draw_exploration)
    bonus = issubclass(kind, DQN) and draw is DQN.draw_exploration and kind.epsilon is DQN.epsilon
    if normal or bonus:
        return ""
    return (
        f"exploration with {drawn} of a distribution of its own; allowed: the standard normal noise of "
        "Algorithm.draw_exploration, or DQN's bonus"
    )
