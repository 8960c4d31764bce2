"""Defines the paper with the key PPO, on an accelerator for proximal policy optimisation."""

from placerl.harness.papers.discovery import Paper

PAPER = Paper(
    "PPO",
    "PPOAccel: A High-Throughput Acceleration Framework for PPO (IEEE TPDS)",
    position=4,
)
