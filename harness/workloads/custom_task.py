"""Defines a task that needs no workload file: a user's environment and algorithm, given as Python objects."""

import copy
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
from placerl.primitives.replay import FieldSpec, NStepReturns
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
        n_step: most steps of a transition.
        discount: gamma of n-step transitions, whose column `discount` then is gamma^m for m steps; None: transitions
            are of one step, and have no such column.
    """

    name: str
    make_environment: MakeEnvironment
    custom_algorithm: CustomAlgorithm
    replay: ReplayTable
    training: TrainingTable
    n_step: int = 1
    discount: float | None = None

    def returns(self) -> NStepReturns | None:
        """Return what turns the actors' single steps into n-step transitions; None for transitions of one step."""
        if self.discount is None:
            return None
        return NStepReturns(self.n_step, self.discount, self.training.actors)

    def columns(self) -> dict[str, FieldSpec]:
        """Return shape and dtype of each column of the stored transitions, by name.

        Observations are float32, images too, as `CustomAlgorithm` declares its batches.
        """
        algorithm = self.custom_algorithm
        action = (
            FieldSpec((), np.int64) if algorithm.discrete else FieldSpec((algorithm.action_size,), np.float32)
        )
        observation = FieldSpec(algorithm.observation_shape, np.float32)
        return transition_fields(observation, action, discount=self.discount is not None)


def copies_of(environment: gymnasium.Env[Any, Any]) -> MakeEnvironment:
    """Return a function that creates environments as copies of one, which itself is not stepped.

    Raises:
        UserError: the environment cannot be copied.
    """
    try:
        copy.deepcopy(environment).close()
    except Exception as error:
        found = f"one that cannot be copied: {error}"
        allowed = "one that copy.deepcopy copies, or a function that creates one"
        raise UserError(contract.source(environment), "environment", found, allowed, names=()) from error
    return partial(copy.deepcopy, environment)


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
        UserError: `make` is no function, it returns no Gymnasium environment, or the environment has a space that is
            not supported.
    """
    environment = make() if callable(make) else make
    if not isinstance(environment, gymnasium.Env):
        allowed = "a gymnasium.Env, a function that returns one, or the ID of a registered one"
        raise UserError(name, "environment", environment, allowed, names=())
    try:
        observation: Any = getattr(environment, "observation_space", None)
        action: Any = getattr(environment, "action_space", None)
        named = contract.source(environment)
        _check_observation(observation, named, "observation_space")
        if (actions := actions_of(action)) is None:
            raise UserError(named, "action_space", action, ACTIONS, names=())
        if not isinstance(observation, gymnasium.spaces.Box):
            size = gymnasium.spaces.flatdim(observation)
            environment = Flattened(environment)
            shown = f"{type(observation).__name__} of {', '.join(_leaves(observation))}"
            observation, make = environment.observation_space, partial(flattened, make)
            print(
                f"{name}: observation_space: {shown}; flattened to {size} numbers",
                file=sys.stderr,
            )
    finally:
        environment.close()
    return make, {"observation_shape": observation.shape, **actions}


class Flattened(FlattenObservation):
    """An environment whose observations, a `Dict` or `Tuple` of arrays, are checked and flattened to one vector."""

    def __init__(self, environment: gymnasium.Env[Any, Any]) -> None:
        self._parts = CheckedParts(environment)
        super().__init__(self._parts)

    def flat(self, observation: Any) -> Any:
        """Return an observation of the inner environment as one vector; UserError if a part is wrong."""
        return self.observation(self._parts.observation(observation))


def flattened(make: MakeEnvironment) -> gymnasium.Env[Any, Any]:
    """Create an environment, and flatten its observations to one vector."""
    return Flattened(make())


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
    """Create an environment and reset it once with a seed."""
    environment = make()
    contract.reset(environment, seed)
    return environment
