"""Rules that lower element-wise ATen operations to the step graph."""

import math
from typing import Any, cast

from placerl.primitives.graph.graph import UnsupportedOperationError, View
from placerl.primitives.graph.lowering.builder import Builder, Number, Splat, Value
from placerl.primitives.graph.lowering.rules import RULES, Rule, rule


def _scalar_rule(op: str) -> Rule:
    # Other arguments, such as `decimals` of `round`, would change the result: they raise TypeError.
    def rule(b: Builder, dtype: str, *operands: Value | Number, alpha: Number = 1) -> Value:
        if alpha != 1:
            operands = (operands[0], b.apply("mul", [cast(Value, operands[1]), alpha], dtype))
        # The sum of two flags is a flag; backends that compute with numbers would have 2.
        is_of_flags = op == "add" and dtype == "bool"
        return b.apply("logical_or" if is_of_flags else op, operands, dtype)

    return rule


_SAME_NAME = (
    *("neg", "abs", "sign", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos"),
    *("tanh", "sigmoid", "erf", "floor", "ceil", "round", "logical_not", "add", "sub", "mul", "maximum"),
    *("minimum", "remainder", "lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_or"),
)
for _name in _SAME_NAME:
    RULES[_name] = _scalar_rule(_name)
RULES["sgn"] = RULES["sign"]


def _bitwise_rule(op: str) -> Rule:
    def rule(b: Builder, dtype: str, *operands: Value) -> Value:
        if dtype != "bool":
            raise UnsupportedOperationError("bit operations are for bool only")
        return b.apply(op, operands, dtype)

    return rule


for _name in ("not", "and", "or"):
    RULES[f"bitwise_{_name}"] = _bitwise_rule(f"logical_{_name}")


@rule("where")
def _where(b: Builder, dtype: str, condition: Value, a: Value | Number, other: Value | Number) -> Value:
    return b.apply("where", [condition, a, other], dtype)


@rule("isnan")
def _isnan(b: Builder, dtype: str, x: Value) -> Value:
    return b.apply("ne", [x, x], dtype)


@rule("rsub")
def _rsub(b: Builder, dtype: str, x: Value, y: Value | Number, alpha: Number = 1) -> Value:
    return b.apply("sub", [y, b.apply("mul", [x, alpha], dtype)], dtype)


@rule("div")
def _div(b: Builder, dtype: str, x: Value, y: Value | Number, rounding_mode: str | None = None) -> Value:
    match rounding_mode:
        case None:
            return b.apply("div", [x, y], dtype)
        case "floor" if dtype.startswith("float"):
            return b.apply("floor", [b.apply("div", [x, y], dtype)], dtype)
        case "floor":  # a quotient of integers is cut towards zero; without the remainder nothing is cut
            remainder = b.apply("remainder", [x, y], dtype)
            return b.apply("div", [b.apply("sub", [x, remainder], dtype), y], dtype)
    raise UnsupportedOperationError(f"rounding_mode {rounding_mode!r}")


@rule("pow")
def _pow(b: Builder, dtype: str, x: Value | Number, exponent: Value | Number) -> Value:
    known = exponent.value if isinstance(exponent, Splat) else exponent
    if isinstance(x, View) and isinstance(known, float | int):
        if known == 2:
            return b.apply("mul", [x, x], dtype)
        if known == 0.5:
            return b.apply("sqrt", [x], dtype)
        if known == -1:
            return b.apply("reciprocal", [x], dtype)
    return b.apply("pow", [x, exponent], dtype)


@rule("relu")
def _relu(b: Builder, dtype: str, x: Value) -> Value:
    return b.apply("maximum", [x, 0], dtype)


@rule("leaky_relu")
def _leaky_relu(b: Builder, dtype: str, x: Value, slope: float = 0.01) -> Value:
    positive = b.apply("gt", [x, 0], "bool")
    return b.apply("where", [positive, x, b.apply("mul", [x, slope], dtype)], dtype)


@rule("elu")
def _elu(
    b: Builder, dtype: str, x: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> Value:
    negative = b.apply(
        "mul", [b.apply("expm1", [b.apply("mul", [x, input_scale], dtype)], dtype), alpha], dtype
    )
    chosen = b.apply("where", [b.apply("gt", [x, 0], "bool"), x, negative], dtype)
    return b.apply("mul", [chosen, scale], dtype)


@rule("gelu")
def _gelu(b: Builder, dtype: str, x: Value, approximate: str = "none") -> Value:
    if approximate != "none":
        raise UnsupportedOperationError(f"approximate {approximate!r}")
    half = b.apply("mul", [x, 0.5], dtype)
    tail = b.apply("erf", [b.apply("mul", [x, math.sqrt(0.5)], dtype)], dtype)
    return b.apply("mul", [half, b.apply("add", [tail, 1.0], dtype)], dtype)


@rule("clamp", "clamp_min")
def _clamp(
    b: Builder, dtype: str, x: Value, min: Value | Number | None = None, max: Value | Number | None = None
) -> Value:
    for op, bound in (("maximum", min), ("minimum", max)):
        x = x if bound is None else b.apply(op, [x, bound], dtype)
    return x


RULES["clamp_max"] = _scalar_rule("minimum")


@rule("hardtanh")
def _hardtanh(b: Builder, dtype: str, x: Value, low: Number = -1, high: Number = 1) -> Value:
    return _clamp(b, dtype, x, low, high)  # PyTorch leaves out arguments that have their default value


@rule("_to_copy", "clone", "detach", "alias", "lift_fresh_copy", "lift_fresh", "convert_element_type")
def _convert(b: Builder, dtype: str, x: Value, *_args: Any) -> Value:
    return b.cast(x, dtype)
