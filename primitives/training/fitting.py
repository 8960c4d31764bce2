"""Checks that native environments and an algorithm have the same observations and actions."""

from typing import Any

from placerl.primitives.algorithms import Algorithm


def check_environments(environments: Any, algorithm: Algorithm) -> None:
    """Check that an algorithm can act in native environments (`primitives.environments.make_native`).

    Raises:
        ValueError: they have other observations or actions than the algorithm.
    """
    kind = "discrete" if environments.action_count else "continuous"
    actions = environments.action_count or environments.action_width
    found = (environments.observation_width,), actions, kind
    if found != (algorithm.observation_shape, algorithm.action_size, algorithm.action_kind):
        raise ValueError(
            f"environments: found {environments.id} of {found[0]} observations and {actions} {kind} actions; "
            f"allowed: {algorithm.observation_shape} and {algorithm.action_size} {algorithm.action_kind}"
        )
