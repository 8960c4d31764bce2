"""Reads the clock frequencies of PPO's designs, as given in the paper (PPO 5.2), and states the claim about them."""

from placerl.harness.papers import published
from placerl.harness.papers.base import Claim
from placerl.harness.papers.number import from_text

KEYS = {"Hopper": "PPO.clock_mujoco", "Humanoid": "PPO.clock_mujoco", "Pong": "PPO.clock_atari"}
"""Key of each benchmark's clock in `results/papers/text.csv`."""


def published_clock_mhz(benchmark: str) -> int:
    """Return the clock frequency that the paper gives for PPO's design, in whole MHz."""
    return int(published.quantity(KEYS[benchmark]).value)


class ClocksOfPlacedDesigns(Claim):
    """The clocks of PPO 5.2. It is never judged here: the vendor's placement for the paper's board is not free."""

    key, place, position = "PPO-5.2-clock", "5.2", 7
    statement = "Clocks of the placed designs"
    published = from_text("PPO.clock_mujoco", "PPO.clock_atari")
    needs = "placement on an Alveo U200 (Vivado)"
