"""Mapping strategies behind one interface.

Performance table, problem and platform in; mapping, predicted throughput and the terms of the prediction out.
`models` and `STRATEGIES` are what `placerl map` and `placerl validate` go through.
"""

from harness.mapping.actors_learners import ActorsLearners
from harness.mapping.base import (
    Entry,
    Mapping,
    Model,
    PerformanceTable,
    Platform,
    Prediction,
    Problem,
    Strategy,
    Target,
)
from harness.mapping.composed_loop import ComposedLoop, composed_candidates
from harness.mapping.exhaustive import Exhaustive
from harness.mapping.map_tpds23 import MapTpds23
from harness.mapping.pearl24 import Pearl24
from harness.mapping.strict_loop import StrictLoop

__all__ = [
    "DEFAULT_STRATEGY",
    "STRATEGIES",
    "ActorsLearners",
    "ComposedLoop",
    "Entry",
    "Exhaustive",
    "MapTpds23",
    "Mapping",
    "Model",
    "Pearl24",
    "PerformanceTable",
    "Platform",
    "Prediction",
    "Problem",
    "Strategy",
    "StrictLoop",
    "Target",
]

_COMPOSED = Exhaustive(ComposedLoop.name, ComposedLoop(), composed_candidates)
STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        _COMPOSED,
        MapTpds23(),
        Exhaustive("exhaustive", MapTpds23()),
        Pearl24(),
        ActorsLearners(),
        Exhaustive(StrictLoop.name, StrictLoop()),
    )
}
"""By name: the runtime's own loop, the papers' strategies, and the strict loop of the papers' primitives."""
DEFAULT_STRATEGY = _COMPOSED.name
