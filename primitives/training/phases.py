"""A gradient step in phases, so that several learners can average their gradients between them (PAL V-B).

An algorithm asks for gradients one or more times (`Updates.gradients`). Phase i ends with the i-th of them: it returns
that loss's gradients and what belongs to it. The last phase gets all of these and returns the new state. Learners that
each run phase i on a batch of their own, and continue with the mean of their gradients and of what else is a mean over
the batch (`is_mean`), make the same update.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from primitives.algorithms import Algorithm
from primitives.algorithms.networks import Parameters
from primitives.algorithms.updates import Auxiliary, Batch, Loss, Updates
from primitives.graph.graph import Graph
from primitives.graph.trace import trace


class Gradients(NamedTuple):
    """What one call of `Updates.gradients` returns: gradients by parameter, the loss (), the auxiliary results."""

    gradients: Parameters
    loss: Tensor
    rest: Any


class PhaseResult(NamedTuple):
    """The result of a phase that ends with gradients; the state is unchanged."""

    state: Any
    found: Gradients


class _Found(Exception):
    """Ends a phase where its gradients are known."""

    def __init__(self, found: Gradients) -> None:
        self.found = found


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
        raise _Found(Gradients(*super().gradients(loss, parameters, batch)))


def is_mean(name: str, shape: Sequence[int]) -> bool:
    """Whether an output of a phase is a mean over the batch, which the learners average: gradients, the loss, means.

    Args:
        name: of the output.
        shape: of the output; what has one number per sample, each learner keeps for its own part of the batch.
    """
    return name.startswith("found/gradients/") or (name.startswith("found/") and not shape)


@lru_cache(maxsize=64)
def phase_graphs(algorithm: Algorithm, batch_size: int, variant: str) -> tuple[Graph, ...]:
    """Return the graphs of the phases of one variant of an algorithm's gradient step.

    Phase i returns `found/...`; later phases read it as `given/i/...`. The last phase's outputs are the step's.

    Args:
        algorithm: off-policy, with `Updates` as they come; everything that it computes about a sample is inside its
            losses.
        batch_size: transitions of one learner's batch.
        variant: kind of gradient step.

    Raises:
        UnsupportedOperationError: an operation that no graph backend has.
    """

    def step(state: Any, batch: Any, draws: Any, given: Any) -> Any:
        made = replace(algorithm, updates=_Phased([Gradients(*one) for one in given]))
        try:
            return made.gradient_step(state, batch, draws, variant)
        except _Found as end:
            return PhaseResult(state, end.found)

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
