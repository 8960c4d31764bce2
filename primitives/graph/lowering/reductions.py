"""Rules that lower reductions, and operations composed of reductions such as softmax, to the step graph."""

from collections.abc import Sequence
from typing import Any

from placerl.primitives.graph.graph import UnsupportedOperationError
from placerl.primitives.graph.lowering.builder import Builder, Number, Value
from placerl.primitives.graph.lowering.rules import RULES, Rule, rule


def _axes(axes: int | Sequence[int] | None) -> Sequence[int]:
    return () if axes is None else (axes,) if isinstance(axes, int) else axes


@rule("sum")
def _sum(b: Builder, dtype: str, x: Value, axes: Sequence[int] | None = None, keepdim: bool = False) -> Value:
    return b.reduce("sum", x, _axes(axes), keepdim, dtype)


@rule("mean")
def _mean(
    b: Builder, dtype: str, x: Value, axes: Sequence[int] | None = None, keepdim: bool = False
) -> Value:
    total = b.reduce("sum", x, _axes(axes), keepdim, dtype)
    return b.apply("div", [total, x.size // max(1, total.size)], dtype)


@rule("var")
def _var(
    b: Builder, dtype: str, x: Value, axes: Sequence[int] | None = None, correction: Number | None = 1,
    keepdim: bool = False,
) -> Value:  # fmt: skip
    deviation = b.apply("sub", [x, _mean(b, dtype, x, axes, True)], dtype)
    total = b.reduce("sum", b.apply("mul", [deviation, deviation], dtype), _axes(axes), keepdim, dtype)
    count = x.size // max(1, total.size) - (1 if correction is None else correction)
    return b.apply("div", [total, max(0, count)], dtype)  # by 0 as in PyTorch: infinity, or NaN of one number


@rule("var_mean")
def _var_mean(
    b: Builder, dtype: str, x: Value, axes: Sequence[int] | None = None, correction: Number | None = 1,
    keepdim: bool = False,
) -> list[Value]:  # fmt: skip
    return [_var(b, dtype, x, axes, correction, keepdim), _mean(b, dtype, x, axes, keepdim)]


@rule("linalg_vector_norm")
def _vector_norm(
    b: Builder, dtype: str, x: Value, order: Number = 2, axes: Sequence[int] | None = None,
    keepdim: bool = False,
) -> Value:  # fmt: skip
    if order != 2:
        raise UnsupportedOperationError(f"norm of order {order}; the graph has order 2 only")
    total = b.reduce("sum", b.apply("mul", [x, x], dtype), _axes(axes), keepdim, dtype)
    return b.apply("sqrt", [total], dtype)


def _extreme_rule(op: str) -> Rule:
    def rule(b: Builder, dtype: str, x: Value, axes: Any = None, keepdim: bool = False) -> Any:
        return b.reduce(op, x, _axes(axes), keepdim, dtype)

    return rule


RULES["amax"], RULES["amin"] = _extreme_rule("max"), _extreme_rule("min")


def _any_all_rule(op: str) -> Rule:
    def rule(b: Builder, dtype: str, x: Value, axes: Any = None, keepdim: bool = False) -> Value:
        reduced = b.reduce(op, b.cast(b.cast(x, "bool"), "float32"), _axes(axes), keepdim, "float32")
        return b.apply("ne", [reduced, 0.0], "bool")

    return rule


RULES["any"], RULES["all"] = _any_all_rule("max"), _any_all_rule("min")


def _argument_rule(op: str) -> Rule:
    def rule(b: Builder, dtype: str, x: Value, axis: int | None = None, keepdim: bool = False) -> Value:
        if axis is None:
            x, axis = b.reshape(x, (x.size,)), 0
        axis %= len(x.shape)
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        positions = b.emit("argreduce", [x], shape, "int64", op=op, axis=axis)
        return b.reshape(positions, (*shape[:axis], *([1] * keepdim), *shape[axis:]))

    return rule


RULES["argmax"], RULES["argmin"] = _argument_rule("max"), _argument_rule("min")


def _extreme_with_position_rule(op: str) -> Rule:
    def rule(b: Builder, dtype: str, x: Value, axis: int | None = None, keepdim: bool = False) -> Any:
        if axis is None:
            return b.reduce(op, x, (), False, dtype)
        position = RULES["arg" + op](b, "int64", x, axis, keepdim)
        return [b.reduce(op, x, (axis,), keepdim, dtype), position]

    return rule


RULES["max"], RULES["min"] = _extreme_with_position_rule("max"), _extreme_with_position_rule("min")


@rule("_log_softmax")
def _log_softmax(b: Builder, dtype: str, x: Value, axis: int, _half: bool = False) -> Value:
    shifted = b.apply("sub", [x, b.reduce("max", x, (axis,), True, dtype)], dtype)
    total = b.reduce("sum", b.apply("exp", [shifted], dtype), (axis,), True, dtype)
    return b.apply("sub", [shifted, b.apply("log", [total], dtype)], dtype)


@rule("_softmax")
def _softmax(b: Builder, dtype: str, x: Value, axis: int, _half: bool = False) -> Value:
    shifted = b.apply("sub", [x, b.reduce("max", x, (axis,), True, dtype)], dtype)
    exponential = b.apply("exp", [shifted], dtype)
    return b.apply("div", [exponential, b.reduce("sum", exponential, (axis,), True, dtype)], dtype)
