"""Defines a task that needs no workload file: a user's environment and algorithm, given as Python objects."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import FlattenObservation

from placerl.harness.core.errors import UserError
from placerl.harness.environments import contract
from placerl.harness.environments.contract import CheckedParts
from placerl.harness.environments.schema import ACTIONS, actions_of
from placerl.harness.workloads.schema import ReplayTable, TrainingTable
from placerl.primitives.algorithms.custom import CustomAlgorithm
from placerl.primitives.replay import FieldSpec
from placerl.primitives.replay.storage import transition_fields

OBSERVATIONS = "a Box, or a Dict or Tuple of them, nested or not"
MakeEnvironment = Callable[[], gymnasium.Env[Any, Any]]


@dataclass(frozen=True)
class CustomTask:
    """A user's own environment and algorithm, with the settings that a training needs.

    Attributes:
        name: name of the task, for error messages.
        make_environment: creates one environment.
        custom_algorithm: the user's algorithm.
        replay: capacity of the replay and parameters of its priorities, as the `[replay]` table of a workload's file.
        training: batch sizes, numbers of steps and environments, and seeds, as the `[training]` table.
    """

    name: str
    make_environment: MakeEnvironment
    custom_algorithm: CustomAlgorithm
    replay: ReplayTable
    training: TrainingTable

    def columns(self) -> dict[str, FieldSpec]:
        """Return shape and dtype of each column of the stored transitions, by name.

        Observations are float32, images too, as `CustomAlgorithm` declares its batches.
        """
        algorithm = self.custom_algorithm
        action = (
            FieldSpec((), np.int64) if algorithm.discrete else FieldSpec((algorithm.action_size,), np.float32)
        )
        return transition_fields(FieldSpec(algorithm.observation_shape, np.float32), action)


def prepared(make: MakeEnvironment, name: str) -> tuple[MakeEnvironment, dict[str, Any]]:
    """Check that an environment's spaces are supported, and flatten observations that consist of several arrays.

    Supported observations are a `Box`, and a `Dict` or `Tuple` of supported ones. A `Dict` or `Tuple` is
    flattened to one vector (`gymnasium.wrappers.FlattenObservation`, in the order of the space), and a line on
    standard error reports it. Supported actions are a `Discrete` that begins at 0, and a bounded `Box` of one
    dimension.

    Args:
        name: name of the task, for the line about flattening.

    Returns:
        A function that creates the environment, with flattened observations if necessary; and the observation
        shape and the kind and size of the actions, by the names of the arguments of `CustomAlgorithm`.

    Raises:
        UserError: `make` returns no Gymnasium environment, or the environment has a space that is not supported.
    """
    environment = make()
    if not isinstance(environment, gymnasium.Env):
        raise UserError(name, "environment", environment, "a function that returns a gymnasium.Env", names=())
    try:
        observation: Any = getattr(environment, "observation_space", None)
        action: Any = getattr(environment, "action_space", None)
        named = contract.source(environment)
        _check_observation(observation, named, "observation_space")
        if (actions := actions_of(action)) is None:
            raise UserError(named, "action_space", action, ACTIONS, names=())
        if not isinstance(observation, gymnasium.spaces.Box):
            size = gymnasium.spaces.flatdim(observation)
            environment = FlattenObservation(environment)
            shown = f"{type(observation).__name__} of {', '.join(_leaves(observation))}"
            observation, make = environment.observation_space, partial(flattened, make)
            print(
                f"{name}: observation_space: {shown}; flattened to {size} numbers",
                file=sys.stderr,
            )
    finally:
        environment.close()
    return make, {"observation_shape": observation.shape, **actions}


def flattened(make: MakeEnvironment) -> gymnasium.Env[Any, Any]:
    """Create an environment whose observations, a `Dict` or `Tuple` of arrays, are flattened to one vector."""
    return FlattenObservation(CheckedParts(make()))


def _parts(space: Any) -> Iterator[tuple[str, Any]]:
    """Yield the spaces inside a Dict or a Tuple with their paths; nothing for other spaces."""
    if isinstance(space, gymnasium.spaces.Dict):
        yield from ((f"[{key!r}]", part) for key, part in space.items())
    elif isinstance(space, gymnasium.spaces.Tuple):
        yield from ((f"[{number}]", part) for number, part in enumerate(space))


def _leaves(space: Any, place: str = "") -> Iterator[str]:
    """Yield the path and shape of each array inside a space."""
    parts = list(_parts(space))
    if not parts and place:
        yield f"{place} {space.shape}"
    for inner, part in parts:
        yield from _leaves(part, place + inner)


def _check_observation(space: Any, name: str, field: str) -> None:
    parts = list(_parts(space))
    if not parts and not isinstance(space, gymnasium.spaces.Box):
        raise UserError(name, field, space, OBSERVATIONS, names=())
    for inner, part in parts:
        _check_observation(part, name, field + inner)


def seeded(make: MakeEnvironment, seed: int) -> gymnasium.Env[Any, Any]:
    """Create an environment and reset it once with a seed.

    Args:
        seed: seed of the reset; further resets need no seed.
    """
    environment = make()
    contract.reset(environment, seed)
    return environment
