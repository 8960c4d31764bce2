"""Checks of arguments: each raises a `ValueError` that names the argument, the value found and the allowed values."""

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np


def python_value(value: Any) -> Any:
    """Return a NumPy scalar, such as `np.int64(3)`, as the Python number that it equals, and other values unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def in_range(name: str, value: float, low: float, high: float = math.inf, *, open_low: bool = False) -> None:
    """Check that `value` is a finite number in [low, high], or in (low, high] with `open_low`.

    Args:
        value: the argument's value, of Python or NumPy; not a bool.

    Raises:
        ValueError: the value is not allowed; the message begins with `name`.
    """
    known = (int, float, np.integer, np.floating)
    number = isinstance(value, known) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not low <= value <= high or (open_low and value == low):
        opening = "(" if open_low or low == -math.inf else "["
        allowed = f"a number in {opening}{low:g}, {high:g}{')' if high == math.inf else ']'}"
        raise ValueError(f"{name}: found {value!r}; allowed: {allowed}")


def positive(name: str, value: float) -> None:
    """Check that `value` is a finite number above 0."""
    in_range(name, value, 0.0, open_low=True)


def whole(name: str, value: int, low: int, high: float = math.inf) -> None:
    """Check that `value` is an integer, of Python or NumPy, of at least `low` and at most `high`; not a bool."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or not low <= value <= high:
        allowed = f"of at least {low}" if high == math.inf else f"from {low} to {high}"
        raise ValueError(f"{name}: found {value!r}; allowed: an integer {allowed}")


def mapping(name: str, value: Any) -> Mapping[str, Any]:
    """Return `value` if it is a mapping."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name}: found {value!r}; allowed: a mapping of values by name")
    return value


def one_of(name: str, value: str, allowed: Collection[str]) -> None:
    """Check that `value` is a text, and one of `allowed`."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}: found {value!r}; allowed: {', '.join(sorted(allowed))}")


def truth(name: str, value: bool) -> None:
    """Check that `value` is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name}: found {value!r}; allowed: true or false")
