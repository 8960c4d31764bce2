"""Trace how an algorithm computes actions, so that the executor of its gradient steps can also compute actions."""

from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch

from placerl.primitives.algorithms import Algorithm
from placerl.primitives.graph.executable import Array
from placerl.primitives.graph.graph import Graph
from placerl.primitives.graph.trace import trace


class _Acted(NamedTuple):
    state: Any
    action: torch.Tensor


@lru_cache(maxsize=64)
def acting_graph(algorithm: Algorithm) -> Graph:
    """Return the step graph of an algorithm's greedy action for one observation.

    Raises:
        UnsupportedOperationError: no graph backend has an operation.
    """

    def step(state: Any, batch: Any) -> _Acted:
        return _Acted(state, algorithm.act(algorithm.acting_parameters(state), batch["observation"]))

    return trace(step, _acting_example(algorithm))


@lru_cache(maxsize=64)
def exploring_graph(algorithm: Algorithm, count: int = 1) -> Graph:
    """Return the step graph of the actions that an actor takes while it gathers experience (`Algorithm.explored`).

    Raises:
        UnsupportedOperationError: no graph backend has an operation.
    """

    def step(state: Any, batch: Any, draws: Any) -> _Acted:
        parameters = algorithm.acting_parameters(state)
        return _Acted(state, algorithm.explored(parameters, batch["observation"], draws))

    drawn = algorithm.draw_exploration(count, 0, np.random.default_rng(0))
    draws = {name: torch.from_numpy(value) for name, value in drawn.items()}
    return trace(step, (*_acting_example(algorithm, count), draws))


def _acting_example(algorithm: Algorithm, count: int = 1) -> tuple[Any, Any]:
    shape, dtype = algorithm.columns(count)["observation"]
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    return state, {"observation": torch.zeros(shape, dtype=dtype)}


def acting_by(algorithm: Algorithm, act: Callable[[Array], Array]) -> Algorithm:
    """Return a copy of an algorithm whose greedy actions the function `act` computes from observations (n, ...)."""
    kind = type(algorithm)
    acting = type(kind.__name__, (kind,), {"act": lambda self, parameters, observation: act(observation)})
    instance: Algorithm = acting(
        **{entry.name: getattr(algorithm, entry.name) for entry in fields(algorithm)}
    )
    return instance
