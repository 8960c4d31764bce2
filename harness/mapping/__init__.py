"""Mapping strategies behind one interface: table and problem in, mapping and predicted throughput out."""

from harness.mapping.base import (
    Entry,
    Mapping,
    Model,
    PerformanceTable,
    Prediction,
    Problem,
    Strategy,
    Target,
)
from harness.mapping.map_tpds23 import MapTpds23
from harness.mapping.strict_loop import StrictLoop

__all__ = [
    "Entry",
    "MapTpds23",
    "Mapping",
    "Model",
    "PerformanceTable",
    "Prediction",
    "Problem",
    "Strategy",
    "StrictLoop",
    "Target",
]
