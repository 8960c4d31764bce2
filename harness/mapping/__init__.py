"""Mapping strategies behind one interface.

Performance table, problem and platform in; mapping, predicted throughput and the terms of the prediction out.
`STRATEGIES` is what `placerl map` goes through, `VALIDATED` what `placerl validate` does.
"""

from harness.mapping import strategies
from harness.mapping.base import (
    Entry,
    Loop,
    Mapping,
    Model,
    PerformanceTable,
    Platform,
    Prediction,
    Problem,
    Strategy,
    Target,
)
from harness.mapping.exhaustive import Exhaustive
from harness.mapping.strategies.composed_loop import NAMES

__all__ = [
    "DEFAULT_STRATEGY",
    "STRATEGIES",
    "VALIDATED",
    "Entry",
    "Exhaustive",
    "Loop",
    "Mapping",
    "Model",
    "PerformanceTable",
    "Platform",
    "Prediction",
    "Problem",
    "Strategy",
    "Target",
]

DEFAULT_STRATEGY = NAMES[Loop.FUSED]
"""The strategy of the loop that `placerl run` trains with."""
STRATEGIES: dict[str, Strategy] = strategies.discover()
"""By name: the papers' strategies, the runtime's own loop, and the sum of the papers' primitives."""
VALIDATED = STRATEGIES | strategies.discover(only_validated=True)
"""Those, and the runtime's two other loops, whose pieces only a validation measures."""
