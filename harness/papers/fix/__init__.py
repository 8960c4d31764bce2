"""Defines the paper FIXAR (key FIX), on fixed-point training and its adaptive array."""

from placerl.harness.papers.discovery import Paper

PAPER = Paper(
    "FIX",
    "FIXAR: A Fixed-Point Deep Reinforcement Learning Platform (2021)",
    position=5,
)
