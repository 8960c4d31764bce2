"""A task that no workload file describes: a user's environment and algorithm, as Python objects."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from harness.errors import UserError
from harness.workload import Replay, Training
from primitives.algorithms.own import OwnAlgorithm
from primitives.replay import FieldSpec
from primitives.replay.storage import transition_fields

MakeEnvironment = Callable[[], gymnasium.Env[Any, Any]]


@dataclass(frozen=True)
class OwnTask:
    """What the runtime needs of a workload.

    Attributes:
        name: in errors.
        make_environment: makes one environment.
        own_algorithm: the algorithm.
        replay, training: as in a workload's file.
    """

    name: str
    make_environment: MakeEnvironment
    own_algorithm: OwnAlgorithm
    replay: Replay
    training: Training

    def columns(self) -> dict[str, FieldSpec]:
        """The columns of a transition."""
        algorithm = self.own_algorithm
        pixels = len(algorithm.observation_shape) > 1
        action = (
            FieldSpec((), np.int64) if algorithm.discrete else FieldSpec((algorithm.action_size,), np.float32)
        )
        return transition_fields(
            FieldSpec(algorithm.observation_shape, np.uint8 if pixels else np.float32), action
        )


def spaces(make: MakeEnvironment) -> dict[str, Any]:
    """Observation shape, kind and size of the actions of the environments that `make` makes.

    Raises:
        UserError: actions that are neither numbers of discrete ones nor vectors.
    """
    environment = make()
    observation, action = environment.observation_space, environment.action_space
    environment.close()
    if isinstance(action, gymnasium.spaces.Discrete):
        kind, size = "discrete", int(action.n)
    elif isinstance(action, gymnasium.spaces.Box) and len(action.shape) == 1:
        kind, size = "continuous", action.shape[0]
    else:
        raise UserError("environment", "action_space", action, "Discrete, or a Box of one dimension")
    return {"observation_shape": observation.shape, "action_kind": kind, "action_size": size}


def seeded(make: MakeEnvironment, seed: int) -> gymnasium.Env[Any, Any]:
    """An environment that has been reset with its seed."""
    environment = make()
    environment.reset(seed=seed)
    return environment
