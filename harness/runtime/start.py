"""Starts trainings: the one place where a class of trainings is chosen."""

from collections.abc import Callable
from typing import Any

from placerl.harness.runtime.native_iterations import NativeIterations
from placerl.harness.runtime.native_threads import ThreadedTraining
from placerl.harness.runtime.on_policy import OnPolicyTraining
from placerl.harness.runtime.resolve import Kind, Resolved
from placerl.harness.runtime.training import Training

Started = Training | OnPolicyTraining | NativeIterations | ThreadedTraining
_CLASSES: dict[Kind, Callable[..., Any]] = {
    Kind.REPLAY: Training,
    Kind.ON_POLICY: OnPolicyTraining,
    Kind.ITERATIONS: NativeIterations,
    Kind.THREADS: ThreadedTraining,
}


def start(resolved: Resolved, seed: int = 0) -> Started:
    """Return the training of what `resolve` returned, ready for `warm_up` and `advance`.

    Args:
        resolved: what is trained, and how.

    Raises:
        UserError: a part cannot be created: its memory is taken by now, or a device refuses it.
    """
    training: Started = _CLASSES[resolved.kind](resolved, seed=seed)
    return training
