"""Mapping strategies behind one interface.

A mapping says where learner, replay management and storage run. A strategy takes a performance table (times of the
primitives), a problem (properties of the workload) and a platform (links and cores of the machine). It returns a
mapping, its predicted throughput and the terms of the prediction. `placerl map` uses
`STRATEGIES`, `placerl validate` uses `VALIDATED`.
"""

from placerl.harness.loop.schedule import Loop
from placerl.harness.mapping import strategies
from placerl.harness.mapping.base import Model, Platform, Prediction, Strategy
from placerl.harness.mapping.exhaustive import Exhaustive
from placerl.harness.mapping.problem import Problem
from placerl.harness.mapping.strategies.composed_loop import NAMES
from placerl.harness.mapping.table import Entry, PerformanceTable
from placerl.harness.mapping.target import Mapping, Target

__all__ = [
    "DEFAULT_STRATEGY",
    "PAPERS",
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
"""Name of the strategy whose model describes the training loop of `placerl run`."""
STRATEGIES: dict[str, Strategy] = strategies.discover()
"""Strategies by name: those of the papers, that of the runtime's own loop, and the sum of the papers' primitives."""
VALIDATED = STRATEGIES | strategies.discover(only_validated=True)
"""`STRATEGIES`, and those of the runtime's other loops, whose inputs only a validation measures."""
PAPERS = {"map-tpds23": "MAP", "pal21": "PAL", "pearl24": "PRL"}
"""The papers whose formulas strategies are, by the strategies' names."""
