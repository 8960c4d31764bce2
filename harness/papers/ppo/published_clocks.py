"""Reads the clock frequencies of PPO's designs, as given in the paper (PPO 5.2)."""

from placerl.harness.papers import published

KEYS = {"Hopper": "PPO.clock_mujoco", "Humanoid": "PPO.clock_mujoco", "Pong": "PPO.clock_atari"}
"""Key of each benchmark's clock in `results/papers/text.csv`."""


def published_clock_mhz(benchmark: str) -> int:
    """Return the clock frequency that the paper gives for PPO's design, in whole MHz."""
    return int(published.quantity(KEYS[benchmark]).value)
