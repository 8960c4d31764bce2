"""The table of rules that lower ATen operations, by the operations' names; each module of this package adds its own."""

from collections.abc import Callable, Sequence
from typing import Any

from placerl.primitives.graph.graph import UnsupportedOperationError
from placerl.primitives.graph.lowering.builder import Builder

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}
_STORAGE_ARGUMENTS = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking"})


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a function as the rule that lowers the ATen operations with these names."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return register


def supported_operations() -> list[str]:
    """Return the names of the ATen operations that the step graph can express."""
    return sorted(RULES)


def lower(builder: Builder, name: str, dtype: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Add one ATen operation to the graph.

    Args:
        name: the operation's name without namespace and overload, such as `addmm`.
        dtype: dtype of the operation's (first) result.
        args, kwargs: arguments of the traced call, in which each tensor is a `Value` of the graph.

    Returns:
        The operation's result as a `Value`, or several as a list.

    Raises:
        UnsupportedOperationError: the graph cannot express it.
    """
    if name not in RULES:
        raise UnsupportedOperationError("no graph backend has it")
    # The result's dtype is known; where and how PyTorch would store it does not matter here.
    own = {key: value for key, value in kwargs.items() if key not in _STORAGE_ARGUMENTS}
    return RULES[name](builder, dtype, *args, **own)
