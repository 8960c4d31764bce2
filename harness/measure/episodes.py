"""Means of episodes in a row, of which the first that is high enough says when a training has reached a return."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

EPISODES = 20
"""Episodes of an evaluation, and of a mean that is compared with a threshold."""


def running_means(returns: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return the mean of each `EPISODES` returns in a row, in order; empty if there are fewer."""
    if len(returns) < EPISODES:
        return np.empty(0)
    return np.lib.stride_tricks.sliding_window_view(np.asarray(returns, np.float64), EPISODES).mean(1)


def new_highs(means: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the places of the means that are higher than every one before, the first included.

    When a mean first was at least some level follows from these means alone.
    """
    return np.flatnonzero(np.diff(np.maximum.accumulate(means), prepend=-np.inf) > 0)
