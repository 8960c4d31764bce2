"""Schedules, which change a hyper-parameter over gradient steps."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from placerl.primitives.replay.checks import number
from placerl.primitives.sum_tree.base import checked_integer

Schedule = Callable[[int], float]
"""A function that maps a step, counted from 0, to the value of a hyper-parameter."""


FEW = 16
"""Steps for which as many calls in Python take about as long as one in NumPy."""


@dataclass(frozen=True)
class LinearSchedule:
    """A schedule that is linear from `initial` at step 0 to `final` at step `steps`, and constant after that.

    Schaul et al. 2015 (Prioritized Experience Replay, section 3.4) anneal beta in this way to 1 at the end
    of training.

    Attributes:
        initial: value at step 0.
        final: value at step `steps` and after.
        steps: length of the linear part in steps, at least 1.
    """

    initial: float
    final: float
    steps: int

    def __post_init__(self) -> None:
        checked_integer("steps", self.steps, 1)
        for name, value in (("initial", self.initial), ("final", self.final)):
            if not math.isfinite(number(name, value)):
                raise ValueError(f"{name}: found {value}; allowed: a finite number")

    def __call__(self, step: int) -> float:
        if step >= self.steps:
            return float(self.final)  # which the sum below may miss by a bit
        return self.initial + max(step, 0) / self.steps * (self.final - self.initial)

    def values(self, first: int, count: int) -> list[float]:
        """Return the values at `count` steps from step `first`, at least 0; those of calls, but for many faster."""
        if count < FEW:
            return [self(step) for step in range(first, first + count)]
        fractions = np.arange(first, first + count) / self.steps
        rising = self.initial + fractions * (self.final - self.initial)
        values: list[float] = np.where(fractions < 1, rising, self.final).tolist()
        return values
