"""Computes the advantages of PPO's samples, for the PPO workers that were written for this project."""

import numpy as np


def advantages(
    reward: np.ndarray,
    value: np.ndarray,
    next_value: np.ndarray,
    terminated: np.ndarray,
    over: np.ndarray,
    gamma: float,
    gae_lambda: float,
) -> np.ndarray:
    """Return generalised advantages (Schulman et al. 2016) of T steps of N environments. All arrays are (T, N).

    Args:
        value, next_value: values of the observations before and after each step.
        terminated: whether the step ended its episode for good, so that what follows has no value.
        over: whether it ended its episode in any way.
    """
    delta = reward + gamma * np.where(terminated, 0, next_value) - value
    kept = gamma * gae_lambda * ~over
    result = np.empty_like(delta)
    following = np.zeros_like(delta[0])
    for step in reversed(range(len(delta))):
        result[step] = following = delta[step] + kept[step] * following
    return result
