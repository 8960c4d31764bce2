"""Trees of tensors: nested dicts and NamedTuples whose leaves are tensors. An algorithm's state is such a tree.

A leaf's name joins the keys on its path with "/": `critic_adam/mean/0.weight`. The order of names is fixed, so a
tree can be flattened, sent elsewhere and rebuilt.
"""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor


def _children(tree: Any) -> list[tuple[str, Any]]:
    if isinstance(tree, tuple) and hasattr(tree, "_asdict"):
        return list(tree._asdict().items())
    if isinstance(tree, dict):
        return list(tree.items())
    raise TypeError(f"tree: found {type(tree).__name__}; allowed: dicts and NamedTuples of tensors")


def _rebuild(tree: Any, children: dict[str, Any]) -> Any:
    return children if isinstance(tree, dict) else type(tree)(**children)


def flatten(tree: Any) -> dict[str, Tensor]:
    """Return every leaf (tensor) of a tree by its name, in the tree's order."""
    if isinstance(tree, Tensor):
        return {"": tree}
    return {
        f"{key}/{name}" if name else key: leaf
        for key, child in _children(tree)
        for name, leaf in flatten(child).items()
    }


def unflatten(example: Any, leaves: Mapping[str, Any], prefix: str = "") -> Any:
    """Return a tree with the structure of `example`, whose leaves are taken from `leaves` by their names.

    Args:
        example: a tree (nested dicts and NamedTuples of tensors) with the wanted structure.
        leaves: the new leaves by name, such as `critic_adam/mean/0.weight`.
        prefix: beginning of the names of all leaves, such as "critic_adam"; empty for whole trees.
    """
    if isinstance(example, Tensor):
        return leaves[prefix]
    children = {
        key: unflatten(child, leaves, f"{prefix}/{key}" if prefix else key)
        for key, child in _children(example)
    }
    return _rebuild(example, children)


def map_tensors(function: Callable[[Tensor], Tensor], tree: Any) -> Any:
    """Return a tree of the same structure as `tree`, in which `function` is applied to each leaf (tensor)."""
    if isinstance(tree, Tensor):
        return function(tree)
    return _rebuild(tree, {key: map_tensors(function, child) for key, child in _children(tree)})
