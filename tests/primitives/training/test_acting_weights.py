"""The weights of a policy are views of an executable's memory, or are refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from placerl.primitives.algorithms import Algorithm
from placerl.primitives.algorithms.ddpg import DDPG
from placerl.primitives.algorithms.dqn import DQN
from placerl.primitives.algorithms.networks import NetworkDescription
from placerl.primitives.learner.graph_learner import step_graph
from placerl.primitives.learner.native.executable import NativeExecutable
from placerl.primitives.training.acting_weights import acting_weights

SMALL = NetworkDescription(hidden=(5, 6))


@dataclass(frozen=True)
class Doubled(DDPG):
    """Acts with twice the actor's last bias: a number that is nowhere in the state."""

    def acting_parameters(self, state: Any) -> Any:
        found = dict(super().acting_parameters(state))
        last = list(found)[-1]
        return found | {last: 2 * found[last]}


def compiled(algorithm: Algorithm) -> tuple[Any, NativeExecutable]:
    structure = algorithm.initialise(torch.Generator().manual_seed(0))
    graphs = {variant: step_graph(algorithm, 4, variant) for variant in algorithm.variants}
    return structure, NativeExecutable(graphs)


@pytest.mark.parametrize(
    "algorithm",
    [DQN((4,), 2, SMALL, action_kind="discrete"), DDPG((3,), 2, SMALL, action_kind="continuous")],
)
def test_what_is_written_to_the_state_is_in_the_weights(algorithm: Algorithm) -> None:
    structure, executable = compiled(algorithm)
    wanted: Mapping[str, Any] = algorithm.acting_parameters(structure)
    weights = acting_weights(algorithm, structure, executable)
    assert [value.shape for value in weights] == [tuple(value.shape) for value in wanted.values()]
    for name, array in executable.state().items():
        executable.write_state(name, np.full(array.shape, 7, array.dtype))
    assert all((value == 7).all() for value in weights)


def test_a_computed_weight_is_refused_by_name() -> None:
    algorithm = Doubled((3,), 2, SMALL, action_kind="continuous")
    name = list(algorithm.acting_parameters(algorithm.initialise(torch.Generator())))[-1]
    with pytest.raises(ValueError, match=f"acting_parameters: found a copy, '{name}'; allowed: parts of the"):
        acting_weights(algorithm, *compiled(algorithm))
