"""Defines the paper PEARL (key PRL), on deep reinforcement learning composed from portable primitives."""

from placerl.harness.papers.discovery import Paper

PAPER = Paper(
    "PRL",
    "PEARL: Portable, Productive, and High-Performance DRL (CF 2024)",
    position=3,
)
