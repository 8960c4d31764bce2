"""Learners: they own an algorithm's state and take its gradient steps, each backend in a file of its own."""

from typing import Any

from primitives import backend as backends_of
from primitives.algorithms import Algorithm
from primitives.backend import BackendStatus, BackendUnavailableError
from primitives.graph.graph import Graph, UnsupportedOperationError
from primitives.graph.trace import trace
from primitives.learner.base import Learner, StepOutcome

__all__ = [
    "BackendStatus",
    "BackendUnavailableError",
    "Graph",
    "Learner",
    "StepOutcome",
    "UnsupportedOperationError",
    "backends",
    "create",
    "trace",
]


def backends() -> list[BackendStatus]:
    """Each backend: its name, whether it can be used here, and why not."""
    return backends_of.statuses(__name__)


def create(
    algorithm: Algorithm,
    *,
    backend: str = "torch",
    device: str = "cpu",
    batch_size: int,
    seed: int = 0,
    **options: Any,
) -> Learner:
    """A learner with its initial state.

    Args:
        algorithm: from `primitives.algorithms.create`.
        backend: one of `backends()`.
        device: one that the backend has.
        batch_size: transitions of every gradient step, at least 1.
        seed: of the initial parameters and of the draws.
        options: the backend's own; see its module.

    Raises:
        ValueError: an argument out of range; it is named.
        BackendUnavailableError: the backend cannot be used here; the message says why.
    """
    module = backends_of.load(__name__, backend)
    learner: Learner = module.create(algorithm, device=device, batch_size=batch_size, seed=seed, **options)
    return learner
