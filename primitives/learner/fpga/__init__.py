"""The learner on simulated hardware."""

LANES = 16
"""Elements of a memory word, as wide as the core."""
