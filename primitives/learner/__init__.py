"""Learners, which own an algorithm's state and take its gradient steps, with one module per backend."""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from placerl.primitives import backend as backends_of
from placerl.primitives import checks
from placerl.primitives.algorithms import Algorithm
from placerl.primitives.backend import BackendStatus, BackendUnavailableError
from placerl.primitives.graph.graph import Graph, UnsupportedOperationError
from placerl.primitives.graph.trace import trace
from placerl.primitives.learner import aware_training
from placerl.primitives.learner.base import Learner, StepOutcome
from placerl.primitives.learner.finite import NotFiniteError
from placerl.primitives.quantization.precision import (
    BFLOAT_16,
    FLOAT_32,
    IN_FLOATS,
    NAMES,
    Precision,
    by_name,
)

__all__ = [
    "BackendStatus",
    "BackendUnavailableError",
    "Graph",
    "Learner",
    "NotFiniteError",
    "StepOutcome",
    "UnsupportedOperationError",
    "backends",
    "check",
    "create",
    "precisions",
    "trace",
]


def backends() -> list[BackendStatus]:
    """Return the status of each backend: its name, whether it can be used here, and if not, why."""
    return backends_of.statuses(__name__)


def precisions(backend: str) -> tuple[str, ...]:
    """Return the names of the precisions that `create` accepts for a backend.

    Returns:
        "float32" first, then fixed point if the backend has any.

    Raises:
        ValueError: there is no such backend.
    """
    backends_of.path(__name__, backend)
    own = (FLOAT_32, *getattr(backends_of.load(__name__, backend), "PRECISIONS", ()))
    fixed_point = backend in aware_training.backends()
    return tuple(name for name in NAMES if name in own or (fixed_point and name not in IN_FLOATS))


def check(*, backend: str, device: str | int | None = None) -> None:
    """Check that `create` has a backend and a device here, without creating anything.

    Raises:
        ValueError: there is no such backend or device.
        BackendUnavailableError: the backend cannot be used on this machine.
        TypeError: the backend takes no device.
    """
    backends_of.check(__name__, backend, device)


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
        backend: name of one of `backends()`.
        device: a device that the backend supports, such as "cpu" or "cuda:0".
        batch_size: transitions per gradient step, at least 1.
        precision: one of `precisions(backend)`: "float32"; "fixed32" and "fixed16", fixed point with that many
            bits; "dynamic", FIX's precision: 32 bits, with 16-bit activations after the delay; "bfloat16": float32,
            but products round their operands to bfloat16; or the formats themselves. In fixed point the learner is a
            `FixedPointLearner`, and all backends that support it agree bit by bit.
        delay: d of FIX's Algorithm 1, required for "dynamic" and only allowed for it: gradient steps, at least 1.
        options: further options of the backend, such as `threads` of "native"; the backend's module lists them, and
            `aware_training.create` those of fixed point.

    Raises:
        ValueError: an argument is out of range, or the backend does not have an option; the message names it.
        BackendUnavailableError: the backend cannot be used here; the message says why.
    """
    if not isinstance(algorithm, Algorithm):
        raise ValueError(f"algorithm: found {algorithm!r}; allowed: what algorithms.create returns")
    checks.whole("batch_size", batch_size, 1)
    batch_size = int(batch_size)
    module = backends_of.load(__name__, backend)
    if isinstance(precision, str):
        checks.one_of("precision", precision, precisions(backend))
        formats = by_name(precision, delay)
        if precision == BFLOAT_16:
            checks.one_of("products", options.setdefault("products", precision), module.IN_BFLOAT_16)
    elif not isinstance(precision, Precision):
        raise ValueError(f"precision: found {precision!r}; allowed: {', '.join(precisions(backend))}")
    elif backend not in aware_training.backends():
        raise ValueError(f"precision: found formats; allowed: {FLOAT_32}, with backend {backend}")
    elif delay is not None:
        raise ValueError(f"delay: found {delay}; allowed: nothing with formats, which have their own")
    else:
        formats = precision
    if formats is not None:
        _check_options(f"{backend} in fixed point", aware_training.create, options)
        return aware_training.create(
            algorithm, formats, backend=backend, device=device, batch_size=batch_size, seed=seed, **options
        )
    _check_options(backend, module.create, options)
    instance: Learner = module.create(algorithm, device=device, batch_size=batch_size, seed=seed, **options)
    return instance


def _check_options(learner: str, make: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Check that there are only options that `make` has; the arguments of `create` itself are not options."""
    own = [name for name in signature(make).parameters if name not in signature(create).parameters]
    allowed = ", ".join(own) or "none"
    for name, value in options.items():
        if name not in own:
            raise ValueError(f"{name}: found {value!r}; allowed: the options of {learner}, {allowed}")
