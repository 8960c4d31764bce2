"""Translate ("lower") PyTorch's core ATen operations to nodes of the step graph, with one small rule per operation."""

from placerl.primitives.graph.lowering import (  # noqa: F401 - each adds its rules
    creation,
    elementwise,
    indexing,
    products,
    reductions,
    views,
)
from placerl.primitives.graph.lowering.builder import Builder, Splat, Value, dtype_name
from placerl.primitives.graph.lowering.rules import lower, supported_operations

__all__ = ["Builder", "Splat", "Value", "dtype_name", "lower", "supported_operations"]
