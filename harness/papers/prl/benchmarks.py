"""Lists what PRL evaluates: its benchmarks, and the batch sizes that its statements are about (PRL 6.1 to 6.3)."""

from collections.abc import Collection

from placerl.harness.papers import device_times
from placerl.harness.papers.number import integers

WORKLOADS = ("cartpole-dqn", "mountaincar-ddpg", "pong-dqn")
"""The workloads of PRL's three benchmarks; others show nothing of a statement about these."""
LARGE_MODEL = "pong-dqn"
"""The benchmark with convolutions: its model is large at every batch size."""
SMALL, LARGE = integers("PRL.small_batch", "PRL.large_batch")
"""Batch sizes up to which PRL calls a batch small, and from which on it calls it large (6.3)."""


def missing_sizes(sizes: Collection[int]) -> str:
    """Return a text that names the batch sizes that are missing for a statement over PRL's range; empty if none is.

    PRL plots its primitives over "commonly used" batch sizes (6.2), and names the ends of its range only in 6.3. Sizes
    that do not reach both ends show nothing of what changes between them.
    """
    missing = device_times.missing_sizes(sizes, SMALL, LARGE)
    return f"on every device {missing}" if missing else ""
