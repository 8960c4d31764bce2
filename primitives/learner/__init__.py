"""Learners: they own an algorithm's state and take its gradient steps, each backend in a file of its own."""

from typing import Any

from primitives import backend as backends_of
from primitives.algorithms import Algorithm, checks
from primitives.backend import BackendStatus, BackendUnavailableError
from primitives.graph.graph import Graph, UnsupportedOperationError
from primitives.graph.trace import trace
from primitives.learner import aware_training
from primitives.learner.base import Learner, StepOutcome
from primitives.quantization.precision import FLOAT_32, NAMES, Precision, by_name

__all__ = [
    "BackendStatus",
    "BackendUnavailableError",
    "Graph",
    "Learner",
    "StepOutcome",
    "UnsupportedOperationError",
    "backends",
    "create",
    "precisions",
    "trace",
]


def backends() -> list[BackendStatus]:
    """Each backend: its name, whether it can be used here, and why not."""
    return backends_of.statuses(__name__)


def precisions(backend: str) -> tuple[str, ...]:
    """What a backend computes in, as `create` takes it: "float32" first, fixed point where the backend has it.

    Raises:
        ValueError: there is no such backend.
    """
    backends_of.path(__name__, backend)
    return NAMES if backend in aware_training.backends() else (FLOAT_32,)


def create(
    algorithm: Algorithm,
    *,
    backend: str = "torch",
    device: str = "cpu",
    batch_size: int,
    seed: int = 0,
    precision: str | Precision = FLOAT_32,
    delay: int | None = None,
    **options: Any,
) -> Learner:
    """Create a learner with its initial state.

    Args:
        algorithm: from `primitives.algorithms.create`.
        backend: one of `backends()`.
        device: one that the backend has.
        batch_size: transitions of every gradient step, at least 1.
        seed: of the initial parameters and of the draws.
        precision: one of `precisions(backend)`: "float32"; "fixed32" and "fixed16", fixed point of that many bits;
            "dynamic", FIX's own: 32 bits, and activations of 16 after the delay. Or the formats themselves. In fixed
            point the learner is a `FixedPointLearner`, and the backends that have it agree to the last bit.
        delay: d of FIX's Algorithm 1, for "dynamic" alone, which needs it: gradient steps, at least 1.
        options: the backend's own; see its module, and `aware_training.create` for fixed point.

    Raises:
        ValueError: an argument out of range; it is named.
        BackendUnavailableError: the backend cannot be used here; the message says why.
    """
    module = backends_of.load(__name__, backend)
    if isinstance(precision, str):
        checks.one_of("precision", precision, precisions(backend))
        formats = by_name(precision, delay)
    elif backend not in aware_training.backends():
        raise ValueError(f"precision: found formats; allowed: {FLOAT_32}, with backend {backend}")
    elif delay is not None:
        raise ValueError(f"delay: found {delay}; allowed: nothing with formats, which have their own")
    else:
        formats = precision
    if formats is not None:
        return aware_training.create(
            algorithm, formats, backend=backend, device=device, batch_size=batch_size, seed=seed, **options
        )
    made: Learner = module.create(algorithm, device=device, batch_size=batch_size, seed=seed, **options)
    return made
