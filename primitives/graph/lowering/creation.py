"""Rules that lower ATen operations which create tensors, such as `full` and `arange`, to the step graph."""

from collections.abc import Sequence

import numpy as np

from placerl.primitives.graph.graph import View
from placerl.primitives.graph.lowering.builder import Builder, Number, Splat, Value
from placerl.primitives.graph.lowering.rules import RULES, rule


@rule("full")
def _full(b: Builder, dtype: str, shape: Sequence[int], value: Number) -> Splat:
    return Splat(value, tuple(shape), dtype)


@rule("full_like")
def _full_like(b: Builder, dtype: str, x: Value, value: Number) -> Splat:
    return Splat(value, x.shape, dtype)


@rule("scalar_tensor")
def _scalar_tensor(b: Builder, dtype: str, value: Number) -> Splat:
    return Splat(value, (), dtype)


def _fill_rules(name: str, value: Number) -> None:
    RULES[name] = lambda b, dtype, shape: Splat(value, tuple(shape), dtype)
    RULES[name + "_like"] = lambda b, dtype, x: Splat(value, x.shape, dtype)
    RULES["new_" + name] = lambda b, dtype, x, shape: Splat(value, tuple(shape), dtype)


for _name, _fill in (("zeros", 0), ("ones", 1), ("empty", 0)):
    _fill_rules(_name, _fill)
RULES["empty_permuted"] = lambda b, dtype, shape, _order: Splat(0, tuple(shape), dtype)
RULES["new_full"] = lambda b, dtype, x, shape, value: Splat(value, tuple(shape), dtype)


@rule("arange")
def _arange(b: Builder, dtype: str, *bounds: Number) -> View:
    return b.constant(np.arange(*bounds, dtype=dtype))
