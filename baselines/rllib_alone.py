"""RLlib's own training step of DQN and its kin with its environment left out: learner and replay alone."""

from typing import Any

from ray.rllib.algorithms.dqn import dqn

FILL_STEPS = 64  # environment steps of one `train()` while the replay fills


class Cadence:
    """Stands in for RLlib's `calculate_rr_weights`: how often a training step stores, and how often it trains.

    At first it fills the replay. With `store` at 0 a training step is RLlib's own loop of samples, gradient steps and
    priority updates, without a call of the environment.

    Attributes:
        store, train: how often.
    """

    def __init__(self) -> None:
        self.store, self.train = FILL_STEPS, 1
        dqn.calculate_rr_weights = self

    def __call__(self, config: Any) -> list[int]:
        return [self.store, self.train]
