"""Divide a gradient step into phases, between which several learners can average their gradients (PAL V-B).

An algorithm computes gradients one or more times in a step (`Updates.gradients`), such as for a critic and an actor.
Each phase but the last ends with one of these computations, and returns its result. The last phase gets all results
and returns the new state. Several learners run each phase on batches of their own, and then replace their gradients,
and everything else that is a mean over the batch (`is_mean`), by the mean over the learners. So all of them make the
same update.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from placerl.primitives.algorithms import Algorithm
from placerl.primitives.algorithms.networks import Parameters
from placerl.primitives.algorithms.updates import Auxiliary, Batch, Loss, Updates
from placerl.primitives.graph.graph import Graph
from placerl.primitives.graph.trace import trace


class Gradients(NamedTuple):
    """The result of one call of `Updates.gradients`.

    Attributes:
        gradients: the gradients by the names of the parameters.
        loss: the loss, a scalar.
        rest: the auxiliary results of the forward pass.
    """

    gradients: Parameters
    loss: Tensor
    rest: Any


class PhaseResult(NamedTuple):
    """The result of a phase of a gradient step that ends with the computation of gradients.

    Attributes:
        state: the state, unchanged.
        found: the gradients, the loss and the auxiliary results that the phase has computed.
    """

    state: Any
    found: Gradients


class _PhaseEnd(Exception):
    """Ends a phase where its gradients are known."""

    def __init__(self, gradients: Gradients) -> None:
        self.gradients = gradients


class _Phased(Updates):
    """`Updates` whose first gradients are given, and whose next ones end the phase."""

    def __init__(self, given: Sequence[Gradients]) -> None:
        self._given, self._calls = given, 0

    def gradients(
        self, loss: Loss[Auxiliary], parameters: Parameters, batch: Batch
    ) -> tuple[Parameters, Tensor, Auxiliary]:
        self._calls += 1
        if self._calls <= len(self._given):
            gradients, value, rest = self._given[self._calls - 1]
            return gradients, value, rest
        raise _PhaseEnd(Gradients(*super().gradients(loss, parameters, batch)))


def is_mean(name: str, shape: Sequence[int]) -> bool:
    """Return whether an output of a phase of a gradient step is a mean over the batch, such as a gradient or a loss.

    Several learners replace such an output by its mean over the learners. Other outputs have one number per sample, and
    each learner keeps its own.

    Args:
        name: name of the output.
        shape: shape of the output.
    """
    return name.startswith("found/gradients/") or (name.startswith("found/") and not shape)


@lru_cache(maxsize=64)
def phase_graphs(algorithm: Algorithm, batch_size: int, variant: str) -> tuple[Graph, ...]:
    """Return the step graphs of the phases of one variant (kind of gradient step) of an algorithm, in order.

    The outputs of phase i are named `found/...`, and later phases read them as the inputs `given/i/...`. The last
    phase has the outputs of the whole step.

    Args:
        algorithm: an off-policy algorithm that computes everything about a sample inside its losses.
        batch_size: transitions of one learner's batch.
        variant: kind of gradient step.

    Raises:
        UnsupportedOperationError: an operation that no graph backend has.
    """

    def step(state: Any, batch: Any, draws: Any, given: Any) -> Any:
        phased = replace(algorithm, updates=_Phased([Gradients(*one) for one in given]))
        try:
            return phased.gradient_step(state, batch, draws, variant)
        except _PhaseEnd as end:
            return PhaseResult(state, end.gradients)

    generator = torch.Generator().manual_seed(0)
    batch = {
        name: torch.zeros(shape, dtype=dtype)
        for name, (shape, dtype) in algorithm.columns(batch_size).items()
    }
    state, draws = algorithm.initialise(generator), algorithm.draw(batch_size, generator)
    given: tuple[Gradients, ...] = ()
    graphs: list[Graph] = []
    while True:
        graphs.append(trace(step, (state, batch, draws, given)))
        with torch.no_grad():
            result = step(state, batch, draws, given)
        if not isinstance(result, PhaseResult):
            return tuple(graphs)
        given = (*given, result.found)
