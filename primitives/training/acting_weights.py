"""Find the weights with which actors act in an executable's memory, where threads copy them from and to."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from placerl.primitives.algorithms import Algorithm, tree
from placerl.primitives.learner.native.executable import NativeExecutable


def acting_weights(algorithm: Algorithm, structure: Any, executable: NativeExecutable) -> list[npt.NDArray]:
    """Return the weights of an algorithm's policy (`Algorithm.acting_parameters`) as views of an executable's state.

    Args:
        structure: a state of the algorithm, for its structure alone.
        executable: an executable that holds such a state.

    Raises:
        ValueError: the algorithm computes a parameter instead of selecting it from the state, or copies it: threads
            would copy numbers that no gradient step changes.
    """
    state = {name.removeprefix("state/"): array for name, array in executable.state().items()}
    leaves = {name: torch.from_numpy(array) for name, array in state.items()}
    weights = {
        name: value.numpy()
        for name, value in algorithm.acting_parameters(tree.unflatten(structure, leaves)).items()
    }
    for name, value in weights.items():
        if value.size and not any(np.may_share_memory(value, leaf) for leaf in state.values()):
            raise ValueError(f"acting_parameters: found a copy, {name!r}; allowed: parts of the state")
    return list(weights.values())
