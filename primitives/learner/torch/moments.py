"""Adam's second moments of a whole state in one tensor, so that one call shows whether one has overflowed."""

from typing import Any

from torch import Tensor

from placerl.primitives.algorithms import tree
from placerl.primitives.algorithms.updates import is_second_moment

_ALIGNMENT = 64  # elements, so that each parameter's moments begin as an own tensor would


def second_moments(state: Any) -> dict[str, Tensor]:
    """Return Adam's second moments in a state, by the leaf's name."""
    return {name: leaf for name, leaf in tree.flatten(state).items() if is_second_moment(name)}


def in_one_tensor(state: Any) -> tuple[Any, Tensor | None]:
    """Return a state whose second moments are views of one tensor, and that tensor.

    Args:
        state: an algorithm's state, which is not changed. Its second moments have one dtype and one device.

    Returns:
        The state, and a tensor of one dimension, 0 between the moments; None if the state has no moments.
    """
    moments = second_moments(state)
    if not moments:
        return state, None
    sizes = [-(-moment.numel() // _ALIGNMENT) * _ALIGNMENT for moment in moments.values()]
    together = next(iter(moments.values())).new_zeros(sum(sizes))
    leaves = tree.flatten(state)
    for (name, moment), part in zip(moments.items(), together.split(sizes), strict=True):
        leaves[name] = part[: moment.numel()].view(moment.shape).copy_(moment)
    return tree.unflatten(state, leaves), together
