"""Defines the paper with the key PAL, on parallel actors and learners with one concurrent replay."""

from placerl.harness.papers.discovery import Paper

PAPER = Paper(
    "PAL",
    "Parallel Actors and Learners: Generating Scalable RL Implementations (2021)",
    position=2,
)
