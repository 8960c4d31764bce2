"""Defines the paper with the key MAP, on mapping deep reinforcement learning onto heterogeneous machines."""

from placerl.harness.papers.discovery import Paper

PAPER = Paper(
    "MAP",
    "Framework for Mapping DRL Algorithms With Prioritized Replay Buffer (IEEE TPDS 2023)",
    position=1,
)
