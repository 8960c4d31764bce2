"""Mapping strategies behind one interface.

Performance table, problem and platform in; mapping, predicted throughput and the terms of the prediction out.
`models` and `STRATEGIES` are what `placerl map` and `placerl validate` go through.
"""

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
from harness.mapping.strategies.actors_learners import ActorsLearners
from harness.mapping.strategies.composed_loop import ComposedLoop, composed_candidates
from harness.mapping.strategies.map_tpds23 import MapTpds23
from harness.mapping.strategies.pearl24 import Pearl24
from harness.mapping.strategies.primitive_sum import PrimitiveSum

__all__ = [
    "DEFAULT_STRATEGY",
    "STRATEGIES",
    "VALIDATED",
    "ActorsLearners",
    "ComposedLoop",
    "Entry",
    "Exhaustive",
    "Loop",
    "MapTpds23",
    "Mapping",
    "Model",
    "Pearl24",
    "PerformanceTable",
    "Platform",
    "Prediction",
    "PrimitiveSum",
    "Problem",
    "Strategy",
    "Target",
]


def _composed(loop: Loop) -> Strategy:
    model = ComposedLoop(loop)
    return Exhaustive(model.name, model, composed_candidates)


def _by_name(*strategies: Strategy) -> dict[str, Strategy]:
    return {strategy.name: strategy for strategy in strategies}


_FUSED = _composed(Loop.FUSED)
DEFAULT_STRATEGY = _FUSED.name
STRATEGIES: dict[str, Strategy] = _by_name(
    _FUSED,
    MapTpds23(),
    Exhaustive("exhaustive", MapTpds23()),
    Pearl24(),
    ActorsLearners(),
    Exhaustive(PrimitiveSum.name, PrimitiveSum()),
)
"""By name: the runtime's own loop, the papers' strategies, and the sum of the papers' primitives."""
VALIDATED = STRATEGIES | _by_name(_composed(Loop.STRICT), _composed(Loop.OVERLAPPED))
"""Those, and the runtime's two other loops, whose pieces a validation alone measures."""
