"""Lowers core ATen operations to the nodes of the step graph: one small rule per operation, one module per kind."""

from primitives.graph.lowering import (  # noqa: F401 - each adds its rules
    creation,
    elementwise,
    indexing,
    products,
    reductions,
    views,
)
from primitives.graph.lowering.builder import Builder, Splat, Value, dtype_name
from primitives.graph.lowering.rules import lower, supported_operations

__all__ = ["Builder", "Splat", "Value", "dtype_name", "lower", "supported_operations"]
